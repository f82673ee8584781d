/*
 * exec_support.h: an executor for a test, tasks for it, and a gate that holds its workers.
 */
#ifndef CALM_TESTS_UNIT_EXEC_SUPPORT_H
#define CALM_TESTS_UNIT_EXEC_SUPPORT_H

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include <calmalloc/exec.h>

extern "C" const char *policy_name(unsigned index); /* exec/policy.h */

namespace calm_test
{

using namespace std::chrono_literals;

inline const size_t block_bytes[] = {64, 1024};
inline const uint32_t percent[] = {50, 50};

struct Config {
    explicit Config(uint32_t cores, size_t pool_bytes = 256 * 1024)
        : pools(cores, calm_pool_config{block_bytes, percent, 2, pool_bytes, 0, nullptr, nullptr})
    {
        config.pools = pools.data();
        config.cores = cores;
        config.inbox_capacity = 64;
        config.payload_bytes = 64;
        config.policy = "jsq";
    }

    std::vector<calm_pool_config> pools;
    calm_exec_config config{};
};

/* Of small inboxes, in front of which whoever submits waits. */
inline Config waiting(uint32_t cores, uint32_t inbox_capacity, uint32_t wait_ms)
{
    Config config(cores);
    config.config.inbox_capacity = inbox_capacity;
    config.config.full = CALM_EXEC_WAIT;
    config.config.wait_ms = wait_ms;
    return config;
}

struct Exec {
    explicit Exec(const Config &from)
    {
        int result = calm_exec_start(&from.config, &exec);
        EXPECT_EQ(result, 0) << calm_exec_strerror(result);
    }
    Exec(const Exec &) = delete;
    Exec &operator=(const Exec &) = delete;

    ~Exec()
    {
        EXPECT_EQ(calm_exec_destroy(exec), 0);
    }

    calm_exec_stats stats() const
    {
        calm_exec_stats stats;
        calm_exec_stats_read(exec, &stats);
        return stats;
    }

    calm_exec_core_stats core(uint32_t core) const
    {
        calm_exec_core_stats stats;
        EXPECT_EQ(calm_exec_core_stats_read(exec, core, &stats), 0);
        return stats;
    }

    calm_exec *exec = nullptr;
};

/* A task that carries a struct of the test's. */
template <typename T> calm_task task_of(calm_task_function function, const T &payload)
{
    static_assert(sizeof(T) <= 64, "fits the payload");
    calm_task task{};
    task.function = function;
    task.payload = &payload;
    task.payload_bytes = sizeof payload;
    return task;
}

/* Holds workers until it is opened. */
struct Gate {
    std::atomic<unsigned> inside{0}, left{0};
    std::atomic<bool> is_open{false};

    ~Gate()
    {
        is_open = true;
        while (left != inside)
            std::this_thread::yield();
    }

    static void wait(calm_worker *, void *payload)
    {
        Gate *gate = *static_cast<Gate **>(payload);
        gate->inside++;
        while (!gate->is_open)
            std::this_thread::sleep_for(100us);
        gate->left++;
    }

    /* Occupies the core; returns when its worker is inside. */
    void hold(calm_exec *exec, uint32_t core)
    {
        Gate *self = this;
        unsigned before = inside;
        calm_task task = task_of(wait, self);
        ASSERT_EQ(calm_exec_send(exec, core, &task), 0);
        while (inside == before)
            std::this_thread::yield();
    }
};

struct Counted {
    std::atomic<uint32_t> *runs;
    uint32_t number;
    uint32_t check;
};

inline void count(calm_worker *, void *payload)
{
    Counted *counted = static_cast<Counted *>(payload);
    if (counted->check == ~counted->number)
        counted->runs[counted->number]++;
}

inline void wait_for(const std::function<bool()> &is_so)
{
    for (unsigned tries = 0; tries < 20000 && !is_so(); tries++)
        std::this_thread::sleep_for(1ms);
    EXPECT_TRUE(is_so());
}

/* Takes blocks of a size and says what it got; then waits at a gate. */
struct Taker {
    size_t bytes;
    unsigned count;
    std::vector<void *> *blocks;
    Gate *gate;

    static void run(calm_worker *worker, void *payload)
    {
        Taker *own = static_cast<Taker *>(payload);
        for (unsigned i = 0; i < own->count; i++)
            if (void *block = calm_worker_alloc(worker, own->bytes))
                own->blocks->push_back(block);
        Gate::wait(worker, &own->gate);
    }
};

} // namespace calm_test

#endif
