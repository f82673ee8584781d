/*
 * policy_support.h: lets tests read the headers of exec and of the simulator, which are C17, from
 * C++17; and cores to dispatch to.
 *
 * Counts as a system header, so that only the tests' own lines are judged as C++.
 */
#pragma GCC system_header
#ifndef CALM_TESTS_UNIT_POLICY_SUPPORT_H
#define CALM_TESTS_UNIT_POLICY_SUPPORT_H

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <stdatomic.h>
#include <string>
#include <vector>

#define class class_number
extern "C" {
#include "base/check.h"
#include "exec/policy.h"
#include "exec/policy_parts.h"
}
#undef class

namespace calm_test
{

/* Cores that exist only as watch lines, and one policy that sees them. */
class Cores
{
  public:
    Cores(const char *name, uint32_t cores, uint64_t seed = 1)
        : Cores(policy_find(name), cores, seed)
    {
    }
    Cores(const struct policy *seen, uint32_t cores, uint64_t seed = 1) : policy(seen)
    {
        lines = static_cast<watch_line *>(std::aligned_alloc(64, cores * sizeof(watch_line)));
        std::memset(static_cast<void *>(lines), 0, cores * sizeof(watch_line));
        view.lines = lines;
        view.cores = cores;
        view.inbox_capacity = 8;
        view.now_ns = 1000000;
        setup.cores = cores;
        setup.inbox_capacity = 8;
        setup.seed = seed;
        setup.busy_until_ns = nullptr;
        size_t bytes = (policy->state_bytes(&setup) + 64) / 64 * 64;
        state = std::aligned_alloc(64, bytes);
        std::memset(state, 0xA5, bytes); /* start() must not trust what was there */
        policy->start(state, &setup);
    }
    ~Cores()
    {
        std::free(lines);
        std::free(state);
    }
    Cores(const Cores &) = delete;

    void busy(uint32_t core, uint32_t count)
    {
        while (watch_count(&lines[core]) < count)
            watch_arrived(&lines[core]);
        while (watch_count(&lines[core]) > count)
            watch_left(&lines[core]);
    }
    void busy_all(uint32_t count)
    {
        for (uint32_t core = 0; core < view.cores; core++)
            busy(core, count);
    }
    void free_all(unsigned class_number, uint16_t count)
    {
        for (uint32_t core = 0; core < view.cores; core++)
            lines[core].free_blocks[class_number] = count;
    }
    uint32_t choose(uint32_t class_number = POLICY_NO_CLASS, uint64_t key = 0)
    {
        policy_task task = {};
        task.key = key;
        task.class_number = class_number;
        return policy->choose(state, &view, &task);
    }

    const struct policy *policy;
    watch_line *lines;
    policy_view view{};
    policy_setup setup;
    void *state;
};

inline std::vector<std::string> policy_names()
{
    std::vector<std::string> names;
    for (unsigned i = 0; policy_name(i) != nullptr; i++)
        names.push_back(policy_name(i));
    return names;
}

} // namespace calm_test

#endif
