/*
 * sim_support.h: simulations for tests.
 *
 * Counts as a system header, so that only the tests' own lines are judged as C++.
 */
#pragma GCC system_header
#ifndef CALM_TESTS_SIM_SUPPORT_H
#define CALM_TESTS_SIM_SUPPORT_H

#include "../unit/policy_support.h"

#define class class_number
extern "C" {
#include "engine.h"
#include "heap.h"
#include "options.h"
#include "parts.h"
#include "peers.h"
#include "quantiles.h"
#include "traffic.h"
}
#undef class

namespace calm_test
{

/* As `calm sim` would run without further options. */
inline engine_options plain(const char *policy, uint32_t cores, double load, service_kind service)
{
    engine_options options = {};
    options.policy = peer_find(policy);
    options.traffic.service = options.then = service;
    options.traffic.service_ns = 1000;
    options.traffic.keys = 1024;
    options.traffic.seed = 1;
    options.traffic.hold_ns = 20000;
    options.traffic.classes = 4;
    options.traffic.class_skew = 1;
    options.traffic.remote = 0.5;
    options.cores = cores;
    options.load = load;
    options.tasks = 200000;
    options.warmup = 50000;
    options.slow_factor = 1;
    options.inbox_capacity = 4096;
    options.deadline_ns = 100000;
    return options;
}

/* A simulation from its start to its end. Its invariants are looked at now and then. */
class Simulation
{
  public:
    explicit Simulation(const engine_options &options) : all(new engine)
    {
        is_started = engine_start(all.get(), &options);
    }
    ~Simulation()
    {
        if (is_started)
            engine_stop(all.get());
    }
    Simulation(const Simulation &) = delete;

    /* NULL, or the invariant that broke. */
    verdict run(uint64_t events_between_walks = 1 << 14)
    {
        bool is_more = true;
        while (is_more) {
            is_more = engine_run(all.get(), events_between_walks);
            verdict wrong = engine_verify(all.get());
            if (wrong != nullptr)
                return wrong;
        }
        return nullptr;
    }
    engine *operator->()
    {
        return all.get();
    }

    std::unique_ptr<engine> all;
    bool is_started;
};

/* Mean of `runs` seeds, with the half-width of a 99.9 % interval of it. */
struct Mean {
    double value, reach;
};
template <class Value> Mean mean_of(engine_options options, unsigned runs, Value value)
{
    double sum = 0, squares = 0;
    for (unsigned i = 0; i < runs; i++) {
        options.traffic.seed = 100 + i;
        Simulation simulation(options);
        simulation.run(1 << 20);
        double found = value(*simulation.all);
        sum += found;
        squares += found * found;
    }
    double mean = sum / runs, variance = (squares - sum * mean) / (runs - 1);
    return {mean, 4.78 * std::sqrt(variance > 0 ? variance / runs : 0)}; /* Student, 10 runs */
}

} // namespace calm_test

#endif
