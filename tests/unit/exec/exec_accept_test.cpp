/*
 * exec_accept_test.cpp: calmalloc/exec.h: what is accepted, with which code it is not, and what a
 * task finds of what was submitted.
 */
#include <cstring>
#include <numeric>
#include <set>
#include <string>

#include "../errno_support.h"
#include "../exec_support.h"

namespace
{

using namespace calm_test;

calm_task nothing()
{
    calm_task task{};
    task.function = [](calm_worker *, void *) {};
    return task;
}

/* Executors whose blocks of 1 KiB are all taken, by a task that has not ended. */
struct Exhausted {
    static Config config_of(calm_exec_full full, uint32_t wait_ms)
    {
        Config config(1, 22 * 1024);
        config.config.full = full;
        config.config.wait_ms = wait_ms;
        return config;
    }

    Exhausted(calm_exec_full full, uint32_t wait_ms) : exec(config_of(full, wait_ms))
    {
        calm_task task = task_of(Taker::run, taker);
        EXPECT_EQ(calm_exec_send(exec.exec, 0, &task), 0);
        wait_for([&] { return gate.inside == 1; });
        asking.block_bytes = 1024;
    }

    std::vector<void *> blocks;
    Exec exec;
    Gate gate;
    Taker taker{1024, 100, &blocks, &gate};
    calm_task asking = nothing();
};

} // namespace

/* Seen to fail with EFULL where no pool has a block, which a wait then met until its end. */
TEST(ExecStop, WhatIsSubmittedLaterIsToldSoAlsoWhereNoPoolHasABlock)
{
    for (calm_exec_full full : {CALM_EXEC_REJECT, CALM_EXEC_SHED_OLDEST, CALM_EXEC_WAIT}) {
        Exhausted exhausted(full, 2000);
        exhausted.gate.is_open = true;
        EXPECT_EQ(calm_exec_stop(exhausted.exec.exec), 0);
        EXPECT_EQ(calm_exec_submit(exhausted.exec.exec, &exhausted.asking), CALM_EXEC_ESTOPPED);
        EXPECT_EQ(exhausted.exec.stats().waited, 0u);
        EXPECT_EQ(exhausted.exec.stats().rejected, 0u);
    }
}

/* Seen to fail with a wait that takes the stop for one more refusal. */
TEST(ExecStop, EndsAWaitForABlock)
{
    Exhausted exhausted(CALM_EXEC_WAIT, 60000);
    int result = 0;
    std::thread waiter([&] { result = calm_exec_submit(exhausted.exec.exec, &exhausted.asking); });
    wait_for([&] { return exhausted.exec.stats().waited == 1; });
    exhausted.gate.is_open = true;
    EXPECT_EQ(calm_exec_stop(exhausted.exec.exec), 0);
    waiter.join();
    EXPECT_EQ(result, CALM_EXEC_ESTOPPED);
}

/* Seen to fail with workers that look at their own inbox only before they end, under jbsq. */
TEST(ExecStop, RunsWhatThePolicyKeptBack)
{
    for (unsigned i = 0; policy_name(i) != nullptr; i++) {
        SCOPED_TRACE(policy_name(i));
        Config config(2);
        config.config.policy = policy_name(i);
        Exec exec(config);
        Gate gate;
        gate.hold(exec.exec, 0);
        gate.hold(exec.exec, 1);
        std::atomic<uint32_t> runs{0};
        Counted counted{&runs, 0, ~0u};
        calm_task task = task_of(count, counted);
        uint32_t accepted = 0;
        while (accepted < 20)
            accepted += calm_exec_submit(exec.exec, &task) == 0;
        std::thread stopper([&] { EXPECT_EQ(calm_exec_stop(exec.exec), 0); });
        for (int result = 0; result != CALM_EXEC_ESTOPPED; std::this_thread::yield()) {
            result = calm_exec_submit(exec.exec, &task);
            accepted += result == 0;
        }
        gate.is_open = true;
        stopper.join();
        EXPECT_EQ(runs, accepted);
    }
}

/* Seen to fail with a loop that ends after one task, and without the code. */
TEST(ExecSubmit, ManyEndAtTheFirstThatIsNotAcceptedAndSayWhy)
{
    enum { TASKS = 8, PLACES = 3 };
    Config config(1);
    config.config.inbox_capacity = PLACES + 1;
    Exec exec(config);
    Gate gate;
    gate.hold(exec.exec, 0);
    std::atomic<uint32_t> runs[TASKS] = {};
    std::vector<Counted> counted;
    std::vector<calm_task> tasks;
    for (uint32_t i = 0; i < TASKS; i++)
        counted.push_back({runs, i, ~i});
    for (Counted &one : counted)
        tasks.push_back(task_of(count, one));
    int error = -1;
    EXPECT_EQ(calm_exec_submit_many(exec.exec, tasks.data(), TASKS, &error), 0u + PLACES);
    EXPECT_EQ(error, CALM_EXEC_EFULL);
    EXPECT_EQ(calm_exec_submit_many(exec.exec, tasks.data(), TASKS, nullptr), 0u);
    gate.is_open = true;
    calm_exec_drain(exec.exec);
    for (uint32_t i = 0; i < TASKS; i++)
        EXPECT_EQ(runs[i], i < PLACES ? 1u : 0u) << i;
    EXPECT_EQ(calm_exec_submit_many(exec.exec, &tasks[PLACES], PLACES, &error), 0u + PLACES);
    EXPECT_EQ(error, 0);
    calm_exec_drain(exec.exec);
    for (uint32_t i = 0; i < TASKS; i++)
        EXPECT_EQ(runs[i], i < 2 * PLACES ? 1u : 0u) << i;
}

/* What a task found as its payload. */
struct Found {
    enum { BYTES = 64 };
    static inline unsigned char bytes[BYTES];
    static inline uintptr_t at;

    static void keep(calm_worker *, void *payload)
    {
        memcpy(bytes, payload, BYTES);
        at = reinterpret_cast<uintptr_t>(payload);
    }
};

/* Seen to fail with a copy of the first 32 bytes only; jbsq1 copies once more. */
TEST(ExecSubmit, ATaskFindsAllOfThePayloadThatWasThereWhenItWasSubmitted)
{
    for (const char *policy : {"steal", "jbsq1"}) {
        Config config(1);
        config.config.policy = policy;
        Exec exec(config);
        for (bool is_sent : {false, true}) {
            unsigned char payload[Found::BYTES], expected[Found::BYTES];
            std::iota(payload, payload + Found::BYTES, is_sent ? 100 : 1);
            memcpy(expected, payload, sizeof payload);
            memset(Found::bytes, 0, sizeof Found::bytes);
            Gate gate;
            gate.hold(exec.exec, 0);
            calm_task task = nothing();
            task.function = Found::keep;
            task.payload = payload;
            task.payload_bytes = sizeof payload;
            ASSERT_EQ(is_sent ? calm_exec_send(exec.exec, 0, &task)
                              : calm_exec_submit(exec.exec, &task),
                      0);
            memset(payload, 0xEE, sizeof payload);
            gate.is_open = true;
            calm_exec_drain(exec.exec);
            EXPECT_EQ(memcmp(Found::bytes, expected, sizeof expected), 0) << policy << is_sent;
            EXPECT_EQ(Found::at % 16, 0u);
        }
    }
}

/* Seen to fail without either check. */
/* Seen to fail: a task that is NULL was read. */
TEST(ExecSubmit, APointerThatIsNullIsACodeOfEachFunctionThatHasCodes)
{
    Exec exec{Config(1)};
    calm_task task = nothing();
    calm_exec_core_stats stats;
    int error = 0;
    EXPECT_EQ(calm_exec_submit(exec.exec, nullptr), CALM_EXEC_ENULL);
    EXPECT_EQ(calm_exec_send(exec.exec, 0, nullptr), CALM_EXEC_ENULL);
    EXPECT_EQ(calm_exec_submit_many(exec.exec, nullptr, 1, &error), 0u);
    EXPECT_EQ(error, CALM_EXEC_ENULL);
    EXPECT_EQ(calm_exec_core_stats_read(exec.exec, 0, nullptr), CALM_EXEC_ENULL);
    EXPECT_EQ(calm_exec_submit(nullptr, &task), CALM_EXEC_ENULL);
    EXPECT_EQ(calm_exec_send(nullptr, 0, &task), CALM_EXEC_ENULL);
    EXPECT_EQ(calm_exec_submit_many(nullptr, &task, 1, &error), 0u);
    EXPECT_EQ(error, CALM_EXEC_ENULL);
    EXPECT_EQ(calm_exec_core_stats_read(nullptr, 0, &stats), CALM_EXEC_ENULL);
    EXPECT_EQ(calm_exec_drain(nullptr), CALM_EXEC_ENULL);
    EXPECT_EQ(calm_exec_stop(nullptr), CALM_EXEC_ENULL);
    EXPECT_EQ(calm_exec_free(nullptr, nullptr), CALM_EXEC_ENULL);
    EXPECT_EQ(calm_exec_destroy(nullptr), 0);
    calm_exec_drain(exec.exec);
    EXPECT_EQ(exec.stats().accepted, 0u);
}

TEST(ExecSubmit, WhatCannotBeATaskIsACode)
{
    Exec exec{Config(1)};
    const char bytes[65] = {};
    struct Case {
        calm_task_function function;
        const void *payload;
        uint32_t payload_bytes;
        int code;
    };
    const Case cases[] = {
        {nullptr, nullptr, 0, CALM_EXEC_ENULL},
        {nothing().function, nullptr, 8, CALM_EXEC_ENULL},
        {nothing().function, bytes, 65, CALM_EXEC_EPAYLOAD},
        {nothing().function, bytes, UINT32_MAX, CALM_EXEC_EPAYLOAD},
        {nothing().function, bytes, 64, 0},
        {nothing().function, nullptr, 0, 0},
    };
    for (const Case &one : cases) {
        calm_task task{};
        task.function = one.function;
        task.payload = one.payload;
        task.payload_bytes = one.payload_bytes;
        EXPECT_EQ(calm_exec_submit(exec.exec, &task), one.code);
        EXPECT_EQ(calm_exec_send(exec.exec, 0, &task), one.code);
    }
    calm_exec_drain(exec.exec);
    EXPECT_EQ(exec.stats().accepted, 4u);
}

/* Seen to fail with a submit that writes to errno, and with a mapping that does. */
TEST(ExecErrno, NoFunctionTouchesIt)
{
    const uint32_t no_cpu = 1 << 20;
    Config bad_cpu(1), bad_pool(1, 100), good = waiting(1, 2, 1);
    bad_cpu.config.cpus = &no_cpu;
    calm_exec *exec = nullptr;
    calm_exec_stats stats;
    calm_exec_core_stats core;
    KEEPS_ERRNO(calm_exec_start(&bad_cpu.config, &exec));
    KEEPS_ERRNO(calm_exec_start(&bad_pool.config, &exec));
    KEEPS_ERRNO(calm_exec_start(&good.config, &exec));
    ASSERT_NE(exec, nullptr);
    calm_task task = nothing();
    {
        Gate gate;
        gate.hold(exec, 0);
        for (int i = 0; i < 3; i++) /* the last one waits for room that does not come */
            KEEPS_ERRNO(calm_exec_submit(exec, &task));
        KEEPS_ERRNO(calm_exec_send(exec, 0, &task));
    }
    KEEPS_ERRNO(calm_exec_drain(exec));
    std::this_thread::sleep_for(20ms); /* so that the worker sleeps and is woken */
    KEEPS_ERRNO(calm_exec_submit_many(exec, &task, 1, nullptr));
    KEEPS_ERRNO(calm_exec_drain(exec));
    KEEPS_ERRNO(calm_exec_free(exec, &task));
    KEEPS_ERRNO(calm_exec_stats_read(exec, &stats));
    KEEPS_ERRNO(calm_exec_core_stats_read(exec, 7, &core));
    KEEPS_ERRNO(calm_exec_strerror(-1));
    KEEPS_ERRNO(calm_exec_stop(exec));
    KEEPS_ERRNO(calm_exec_submit(exec, &task));
    KEEPS_ERRNO(calm_exec_destroy(exec));
}

/* Seen to fail with one sentence for two codes. */
TEST(ExecStrerror, EveryCodeHasASentenceOfItsOwn)
{
    std::set<std::string> seen{calm_exec_strerror(CALM_EXEC_ERROR_END)};
    for (int code = CALM_EXEC_ENULL; code < CALM_EXEC_ERROR_END; code++)
        EXPECT_TRUE(seen.insert(calm_exec_strerror(code)).second) << code;
    EXPECT_STREQ(calm_exec_strerror(CALM_EDOUBLE), calm_strerror(CALM_EDOUBLE));
}
