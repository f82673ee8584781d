/*
 * exec_core_test.cpp: where tasks run and what of them a core, a policy and who waits get to know.
 */
#include <csignal>
#include <set>

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../exec_parts_support.h"

namespace
{

using namespace calm_test;

/* A task that notes where it runs. */
struct Where {
    std::atomic<int> *core;
    cpu_set_t *cpus;
    int *cpu;

    static void run(calm_worker *worker, void *payload)
    {
        Where *own = static_cast<Where *>(payload);
        if (own->cpus != nullptr)
            sched_getaffinity(0, sizeof *own->cpus, own->cpus);
        if (own->cpu != nullptr)
            *own->cpu = sched_getcpu();
        *own->core = static_cast<int>(calm_worker_core(worker));
    }
};

/* Submits a task that asks nothing and returns the core that it ran on. */
int core_of_next(calm_exec *exec, uint64_t key)
{
    std::atomic<int> core{-1};
    Where where{&core, nullptr, nullptr};
    calm_task task = task_of(Where::run, where);
    task.key = key;
    EXPECT_EQ(calm_exec_submit(exec, &task), 0);
    calm_exec_drain(exec);
    return core;
}

std::vector<uint32_t> usable_cpus()
{
    cpu_set_t usable;
    CPU_ZERO(&usable);
    EXPECT_EQ(sched_getaffinity(0, sizeof usable, &usable), 0);
    std::vector<uint32_t> cpus;
    for (uint32_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &usable))
            cpus.push_back(cpu);
    return cpus;
}

} // namespace

/* Seen to fail with workers that never pin themselves, and with a start that ignores `cpus`. */
TEST(ExecCpu, EachWorkerMayRunOnItsCpuOnly)
{
    std::vector<uint32_t> usable = usable_cpus();
    if (usable.size() < 2)
        GTEST_SKIP() << "one CPU";
    const uint32_t turned[] = {usable[1], usable[0]};
    for (const uint32_t *cpus : {static_cast<const uint32_t *>(nullptr), turned}) {
        Config config(2);
        config.config.cpus = cpus;
        Exec exec(config);
        for (uint32_t core = 0; core < 2; core++) {
            uint32_t cpu = cpus == nullptr ? usable[core] : turned[core];
            cpu_set_t found;
            CPU_ZERO(&found);
            std::atomic<int> ran_on{-1};
            Where where{&ran_on, &found, nullptr};
            calm_task task = task_of(Where::run, where);
            ASSERT_EQ(calm_exec_send(exec.exec, core, &task), 0);
            calm_exec_drain(exec.exec);
            EXPECT_EQ(ran_on, static_cast<int>(core));
            EXPECT_TRUE(CPU_ISSET(cpu, &found));
            EXPECT_EQ(CPU_COUNT(&found), 1);
            EXPECT_EQ(exec.core(core).cpu, cpu);
            EXPECT_TRUE(exec.core(core).is_pinned);
        }
    }
}

/* Seen to fail with a worker that does not ask whether it still has its CPU. */
TEST(ExecCpu, TasksRunOnWhenItIsTakenAway)
{
    cpu_set_t left;
    CPU_ZERO(&left);
    ASSERT_EQ(sched_getaffinity(0, sizeof left, &left), 0);
    if (CPU_COUNT(&left) < 2)
        GTEST_SKIP() << "one CPU";
    Exec exec{Config(2)};
    CPU_CLR(exec.core(0).cpu, &left);
    struct Payload {
        cpu_set_t *set;
    } payload{&left};
    calm_task task = task_of(
        [](calm_worker *, void *p) {
            sched_setaffinity(0, sizeof(cpu_set_t), static_cast<Payload *>(p)->set);
        },
        payload);
    ASSERT_TRUE(exec.core(0).is_pinned);
    ASSERT_EQ(calm_exec_send(exec.exec, 0, &task), 0);
    std::vector<std::atomic<uint32_t>> runs(10000);
    for (uint32_t i = 0; i < 10000; i++) {
        Counted counted{runs.data(), i, ~i};
        calm_task counting = task_of(count, counted);
        while (calm_exec_send(exec.exec, 0, &counting) != 0)
            std::this_thread::yield();
    }
    calm_exec_drain(exec.exec);
    EXPECT_EQ(exec.core(0).done, 10001u);
    EXPECT_FALSE(exec.core(0).is_pinned);
    EXPECT_TRUE(exec.core(1).is_pinned);
    std::atomic<int> ran_on{-1};
    int cpu = -1;
    Where where{&ran_on, nullptr, &cpu};
    calm_task last = task_of(Where::run, where);
    ASSERT_EQ(calm_exec_send(exec.exec, 0, &last), 0);
    calm_exec_drain(exec.exec);
    EXPECT_EQ(ran_on, 0);
    EXPECT_NE(cpu, static_cast<int>(exec.core(0).cpu));
}

/* The first of two sleepers was woken and has not run yet. Seen to fail with one that wakes whoever
 * says first that it sleeps. */
TEST(ExecWakeAny, WhoWasWokenAlreadyIsPassedOver)
{
    auto all = std::make_unique<calm_exec>();
    auto workers = std::make_unique<calm_worker[]>(2);
    all->workers = workers.get();
    all->cores = 2;
    for (unsigned i = 0; i < 2; i++) {
        workers[i].exec = all.get();
        workers[i].core = i;
    }
    all->asleep[0] = 3;
    workers[0].doze = DOZE_AWAKE;
    workers[1].doze = DOZE_ASLEEP;
    worker_wake_any(all.get());
    EXPECT_EQ(workers[1].doze, 0u + DOZE_AWAKE);
}

/* Seen to fail with a key that the policy is not told. */
TEST(ExecPolicy, TasksOfOneKeyShareACore)
{
    Config config(4);
    config.config.policy = "hash";
    Exec exec(config);
    std::set<int> used;
    for (uint64_t key = 0; key < 16; key++) {
        int core = core_of_next(exec.exec, key);
        used.insert(core);
        for (unsigned i = 0; i < 3; i++)
            EXPECT_EQ(core_of_next(exec.exec, key), core) << key;
    }
    EXPECT_GT(used.size(), 1u);
}

/* Seen to fail with a start that drops the seed. */
TEST(ExecPolicy, OneSeedDrawsTheSameCores)
{
    std::vector<std::vector<int>> drawn;
    for (uint64_t seed : {1, 1, 2}) {
        Config config(4);
        config.config.policy = "jsq";
        config.config.seed = seed;
        Exec exec(config);
        std::vector<int> cores;
        for (unsigned i = 0; i < 40; i++)
            cores.push_back(core_of_next(exec.exec, i));
        drawn.push_back(cores);
    }
    EXPECT_EQ(drawn[0], drawn[1]);
    EXPECT_NE(drawn[0], drawn[2]);
}

/* Seen to fail with a task that is refused while every dispatcher is busy. */
TEST(ExecPolicy, ATaskGoesWithoutItWhereEveryDispatcherIsBusy)
{
    Exec exec{Config(2)};
    for (uint32_t i = 0; i < exec.exec->dispatcher_count; i++)
        ASSERT_TRUE(dispatcher_enter(&exec.exec->dispatchers[i]));
    for (unsigned i = 0; i < 20; i++)
        EXPECT_GE(core_of_next(exec.exec, i), 0);
    for (uint32_t i = 0; i < exec.exec->dispatcher_count; i++)
        dispatcher_leave(&exec.exec->dispatchers[i]);
    EXPECT_EQ(exec.stats().accepted, 20u);
}

/* No pool has a block left; three tasks wait at core 1, one at core 0. Seen to fail with a victim
 * that is always core 0, and with a dropped task that lost its key. */
TEST(ExecFull, SheddingTakesFromTheBusiestCoreAndTellsAllOfTheTask)
{
    Config config(2, 22 * 1024);
    std::vector<calm_task> dropped;
    config.config.full = CALM_EXEC_SHED_OLDEST;
    config.config.on_shed_context = &dropped;
    config.config.on_shed = [](const calm_task *task, void *context) {
        static_cast<std::vector<calm_task> *>(context)->push_back(*task);
    };
    Exec exec(config);
    Gate gate;
    std::vector<void *> blocks[2];
    for (uint32_t core = 0; core < 2; core++) {
        Taker taker{1024, 100, &blocks[core], &gate};
        calm_task task = task_of(Taker::run, taker);
        ASSERT_EQ(calm_exec_send(exec.exec, core, &task), 0);
    }
    wait_for([&] { return gate.inside == 2; });
    calm_task task{};
    task.function = [](calm_worker *, void *) {};
    task.hint_ns = 50;
    for (uint64_t key : {11, 12, 13, 10}) {
        task.key = key;
        ASSERT_EQ(calm_exec_send(exec.exec, key == 10 ? 0 : 1, &task), 0);
    }
    task.key = 14;
    task.block_bytes = 1024;
    EXPECT_EQ(calm_exec_submit(exec.exec, &task), 0);
    ASSERT_EQ(dropped.size(), 1u);
    EXPECT_EQ(dropped[0].key, 11u);
    EXPECT_EQ(dropped[0].hint_ns, 50u);
    EXPECT_EQ(dropped[0].function, task.function);
    EXPECT_EQ(exec.core(0).in_flight, 2u);
    EXPECT_EQ(exec.core(1).in_flight, 4u);
    gate.is_open = true;
}

/* Seen to fail with a worker that waits. */
TEST(ExecFull, AWorkerThatSubmitsGetsItsCodeAtOnceWhereOthersWait)
{
    Exec exec(waiting(2, 2, 1000));
    Gate gate, own;
    gate.hold(exec.exec, 1);
    struct Payload {
        std::atomic<int> *code;
        Gate *gate;
    };
    std::atomic<int> code{-1};
    Payload payload{&code, &own};
    calm_task task = task_of(
        [](calm_worker *worker, void *p) {
            Payload *told = static_cast<Payload *>(p);
            Gate::wait(worker, &told->gate);
            calm_task next{};
            next.function = [](calm_worker *, void *) {};
            *told->code = calm_exec_submit(calm_worker_exec(worker), &next);
        },
        payload);
    ASSERT_EQ(calm_exec_send(exec.exec, 0, &task), 0);
    wait_for([&] { return own.inside == 1; });
    calm_task filling{};
    filling.function = [](calm_worker *, void *) {};
    for (uint32_t core = 0; core < 2; core++)
        ASSERT_EQ(calm_exec_send(exec.exec, core, &filling), 0);
    own.is_open = true;
    wait_for([&] { return code != -1; });
    EXPECT_EQ(code, CALM_EXEC_EFULL);
    EXPECT_EQ(exec.stats().waited, 0u);
    gate.is_open = true;
}

/* Seen to fail with a deadline 20 times as far away, and with a wait that ends at once. */
TEST(ExecFull, AWaitTakesAboutAsLongAsItWasTold)
{
    Exec exec(waiting(1, 2, 400));
    Gate gate;
    gate.hold(exec.exec, 0);
    calm_task task{};
    task.function = [](calm_worker *, void *) {};
    ASSERT_EQ(calm_exec_submit(exec.exec, &task), 0);
    auto begun = std::chrono::steady_clock::now();
    EXPECT_EQ(calm_exec_submit(exec.exec, &task), CALM_EXEC_EFULL);
    auto took = std::chrono::steady_clock::now() - begun;
    EXPECT_GE(took, 400ms);
    EXPECT_LT(took, 10 * 400ms);
    gate.is_open = true;
}

/* The program's wait ends by its wake only, so nothing but a wake has the blocks taken back. Seen
 * to fail with a free that wakes nobody. */
TEST(ExecWake, AFreeWakesTheCoreWhoseBlockItIs)
{
    int waker = eventfd(0, EFD_NONBLOCK);
    ASSERT_GE(waker, 0);
    calm_exec_events events{};
    events.context = &waker;
    events.wait = [](calm_worker *, uint64_t wait_ms, void *context) {
        pollfd fd = {*static_cast<int *>(context), POLLIN, 0};
        poll(&fd, 1, wait_ms == 0 ? 0 : -1);
    };
    events.serve = [](calm_worker *, void *context) {
        eventfd_t value;
        eventfd_read(*static_cast<int *>(context), &value);
    };
    events.wake = [](uint32_t, void *context) { eventfd_write(*static_cast<int *>(context), 1); };
    {
        Config config(1);
        config.config.events = &events;
        Exec exec(config);
        uint64_t whole = exec.core(0).free_bytes;
        std::vector<void *> blocks;
        Gate gate;
        Taker taker{1024, 1, &blocks, &gate};
        gate.is_open = true;
        calm_task task = task_of(Taker::run, taker);
        for (unsigned round = 0; round < 3; round++) {
            uint64_t sleeps = exec.core(0).sleeps;
            ASSERT_EQ(calm_exec_send(exec.exec, 0, &task), 0);
            calm_exec_drain(exec.exec);
            wait_for([&] { return exec.core(0).sleeps > sleeps; });
            ASSERT_LT(exec.core(0).free_bytes, whole);
            EXPECT_EQ(calm_exec_free(exec.exec, blocks.back()), 0);
            wait_for([&] { return exec.core(0).free_bytes == whole; });
        }
    }
    close(waker);
}

/* Seen to fail with time that is not counted. */
TEST(ExecStats, TheTimeInTasksIsThatOfTheCoreThatRanThem)
{
    Exec exec{Config(2)};
    calm_task task{};
    task.function = [](calm_worker *, void *) {
        auto begun = std::chrono::steady_clock::now();
        while (std::chrono::steady_clock::now() - begun < 5ms)
            continue;
    };
    auto begun = std::chrono::steady_clock::now();
    for (unsigned i = 0; i < 2; i++)
        ASSERT_EQ(calm_exec_send(exec.exec, 1, &task), 0);
    calm_exec_drain(exec.exec);
    auto took = std::chrono::steady_clock::now() - begun;
    EXPECT_GE(exec.core(1).busy_ns, 10000000u);
    EXPECT_LE(exec.core(1).busy_ns, static_cast<uint64_t>(took.count()));
    EXPECT_EQ(exec.core(0).busy_ns, 0u);
}

namespace
{

/* What a process that crashes leaves: how often each task ran, of those that were accepted. */
struct Crash {
    enum { TASKS = 40, KILLER = 20 };

    std::atomic<uint32_t> runs[TASKS];
    std::atomic<uint32_t> accepted, waiting;

    struct Task {
        Crash *page;
        uint32_t number;
    };

    static void run(calm_worker *worker, void *payload)
    {
        Task own = *static_cast<Task *>(payload);
        own.page->runs[own.number]++;
        if (own.number != KILLER)
            return;
        calm_exec_core_stats stats;
        calm_exec_core_stats_read(calm_worker_exec(worker), calm_worker_core(worker), &stats);
        own.page->waiting = stats.in_flight - 1;
        raise(SIGUSR2);
    }

    /* Even tasks go to core 0, odd ones to core 1, both in order. */
    static void crash(Crash *page)
    {
        Exec exec{Config(2)};
        Gate gate;
        gate.hold(exec.exec, 0);
        gate.hold(exec.exec, 1);
        for (uint32_t i = 0; i < TASKS; i++) {
            Task own{page, i};
            calm_task task = task_of(run, own);
            page->accepted += calm_exec_send(exec.exec, i % 2, &task) == 0;
        }
        gate.is_open = true;
        calm_exec_drain(exec.exec);
    }
};

} // namespace

/* Seen to fail with a worker that runs each task twice, and with one that skips a task. */
TEST(ExecCrash, ATaskThatIsKilledEndsTheProcessAndNothingRanTwice)
{
    void *memory = mmap(nullptr, sizeof(Crash), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                        -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    Crash *page = static_cast<Crash *>(memory);
    pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        alarm(60);
        Crash::crash(page);
        _exit(3);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(WTERMSIG(status), SIGUSR2);
    EXPECT_EQ(page->accepted, 0u + Crash::TASKS);
    uint32_t waiting = 0;
    for (uint32_t i = 0; i < Crash::TASKS; i++) {
        EXPECT_LE(page->runs[i], 1u) << i;
        if (i % 2 == 0) {
            EXPECT_EQ(page->runs[i], i <= Crash::KILLER ? 1u : 0u) << i;
        } else if (i > 1) {
            EXPECT_LE(page->runs[i], page->runs[i - 2]) << i;
        }
        waiting += i % 2 == 0 && page->runs[i] == 0;
    }
    EXPECT_EQ(page->waiting, waiting);
    munmap(memory, sizeof(Crash));
}

/* Seen to fail with a task that catches what it throws. */
TEST(ExecCrash, AnExceptionThatLeavesATaskEndsTheProcess)
{
    pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        alarm(60);
        close(STDERR_FILENO); /* what the runtime says as it ends */
        Exec exec{Config(1)};
        calm_task task{};
        task.function = [](calm_worker *, void *) { throw 1; };
        calm_exec_submit(exec.exec, &task);
        calm_exec_drain(exec.exec);
        _exit(3);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(WTERMSIG(status), SIGABRT);
}
