/*
 * cores_test.cpp: core/cores.c: who gets which cache, how many there are, and who must do without.
 *
 * Which threads work by cores is decided once in a process, so each test is a process of its own.
 */
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include "../heap_support.h"

enum { SPARES = 16, CHILD_SKIPS = 77 };

static unsigned core_limit;

/* Runs `body` in a child where threads work by cores as `use` says. */
template <class Body> static void with_cores(enum cores_use use, Body body)
{
    pid_t child = fork();
    if (child == 0) {
        alarm(60);
        struct os_facts facts;
        os_start(&facts);
        core_limit = facts.core_limit;
        bool is_ready = heap_start();
        cores_start(use, core_limit);
        if (is_ready && use != CORES_NEVER && cores_refusal() != nullptr)
            _exit(CHILD_SKIPS);
        EXPECT_TRUE(is_ready);
        std::thread(body).join();
        fflush(stdout);
        _exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == CHILD_SKIPS)
        GTEST_SKIP() << "no restartable sequences here";
    EXPECT_EQ(status, 0);
}

/* All caches that are to be had, until there is none. */
static std::vector<struct cache *> take_all()
{
    std::vector<struct cache *> taken;
    for (struct cache *cache; taken.size() <= CORES_MAX + SPARES && (cache = cores_take());)
        taken.push_back(cache);
    return taken;
}

TEST(Cores, ARefusalHasAReason)
{
    with_cores(CORES_NEVER, [] {
        EXPECT_STREQ(cores_refusal(), "cores=never");
        EXPECT_FALSE(cores_join(1000, 1));
        cores_start(CORES_ALWAYS, CORES_MAX + 1);
        EXPECT_NE(strstr(cores_refusal(), "CORES_MAX"), nullptr);
        EXPECT_FALSE(cores_join(1000, 1));
    });
}

/* Seen to fail with `halves >= few`. */
TEST(Cores, AutomaticallyThreadsChangeForGoodOnceMoreThanTwoAProcessorAndOneHaveACache)
{
    with_cores(CORES_AUTO, [] {
        EXPECT_EQ(cores_refusal(), nullptr);
        EXPECT_FALSE(cores_join(17, 4));
        EXPECT_FALSE(cores_are_used);
        EXPECT_TRUE(cores_join(18, 4));
        EXPECT_TRUE(cores_are_used);
        EXPECT_TRUE(cores_join(0, 4));
    });
}

/* Seen to fail, in every other child, where a thread only asks before it has a cache. */
TEST(Cores, ThreadsThatComeAtTheSameTimeAreCountedOnceTheyHaveACache)
{
    for (unsigned child = 0; child < 8; child++)
        with_cores(CORES_AUTO, [] {
            const unsigned thread_limit = 2 * std::thread::hardware_concurrency() + 32;
            pthread_barrier_t come, stay;
            pthread_barrier_init(&come, nullptr, thread_limit);
            pthread_barrier_init(&stay, nullptr, thread_limit);
            std::vector<std::thread> threads;
            for (unsigned i = 0; i < thread_limit; i++)
                threads.emplace_back([&] {
                    pthread_barrier_wait(&come);
                    heap_free(calm_test::alloc_in_cohort(100, 0));
                    pthread_barrier_wait(&stay);
                });
            for (std::thread &thread : threads)
                thread.join();
            EXPECT_TRUE(cores_are_used);
        });
}

/* Blocks that go round, `kib` of each of two sizes. */
static void let_go_round(size_t kib)
{
    for (unsigned round = 0; round < 100; round++) {
        std::vector<void *> blocks;
        for (size_t i = 0; i < kib; i++) {
            blocks.push_back(calm_test::alloc_in_cohort(1000, 0));
            blocks.push_back(calm_test::alloc_in_cohort(2000, 0));
        }
        for (void *block : blocks)
            heap_free(block);
    }
}

/* In so many threads at the same time; then, while they have their caches, `meanwhile`. */
template <class Body> static void at_once(unsigned thread_limit, size_t kib, Body meanwhile)
{
    pthread_barrier_t come, stay;
    pthread_barrier_init(&come, nullptr, thread_limit + 1);
    pthread_barrier_init(&stay, nullptr, thread_limit + 1);
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < thread_limit; i++)
        threads.emplace_back([&] {
            let_go_round(kib);
            pthread_barrier_wait(&come);
            pthread_barrier_wait(&stay);
        });
    pthread_barrier_wait(&come);
    meanwhile();
    pthread_barrier_wait(&stay);
    for (std::thread &thread : threads)
        thread.join();
}

static void expect_own_caches()
{
    EXPECT_FALSE(cores_are_used);
}

/* Of 18 halves. Seen to fail where a thread with a small cache counts in full, where one with a
 * large cache counts half, and where a cache counts as large for ever. */
TEST(Cores, AThreadWhoseCacheIsSmallCountsHalf)
{
    with_cores(CORES_AUTO, [] {
        thread_set_budget(1024 * 1024, SIZE_MAX, 4);
        at_once(9, 100, expect_own_caches);
        at_once(10, 1, expect_own_caches);
        at_once(10, 100, [] { EXPECT_TRUE(cores_are_used); });
    });
}

/* Seen to fail with a detach_own() that does nothing, and with a detach_quietly() that keeps it. */
TEST(Cores, ThreadsGiveUpTheirOwnCachesWhenTheyNextMiss)
{
    with_cores(CORES_AUTO, [] {
        heap_free(calm_test::alloc_in_cohort(100, 0));
        ASSERT_EQ(thread_count(), 1u);
        struct cache *own = of_thread.cache;
        ASSERT_NE(own, &cache_none);
        cores_note_weight(1000, 1);
        heap_free(calm_test::alloc_in_cohort(100, 0));
        EXPECT_EQ(of_thread.cache, own) << "a hit is no reason";
        heap_free(calm_test::alloc_in_cohort(3000, 0));
        EXPECT_EQ(of_thread.cache, &cache_none);
        EXPECT_EQ(thread_count(), 0u);
        EXPECT_FALSE(cache_has_arrays(own)) << "no thread takes it up";
        EXPECT_EQ(heap_verify(), nullptr);
    });
}

/* Seen to fail with cores_start() that begins in any case, and with begin_use() that stores without
 * a look at what is there. */
TEST(Cores, TheSlotsAreUntouchedUntilTheyAreUsedAndFilledOnce)
{
    with_cores(CORES_AUTO, [] {
        EXPECT_TRUE(calm_test::is_zero(core_slots, sizeof core_slots));
        cores_note_weight(1000, 1);
        for (unsigned core = 0; core < core_limit; core++)
            EXPECT_EQ(core_slots[core].base, &cache_none);
        ASSERT_TRUE(cores_join(0, 1));
        struct cache *cache = nullptr;
        do {
            cache = cores_take();
            ASSERT_NE(cache, nullptr);
            cores_return(cache);
        } while (cache->state != CACHE_IN_SLOT);
        cores_are_used = false; /* as another thread saw it that comes late */
        cores_note_weight(1000, 1);
        EXPECT_EQ(core_slots[cache->core].base, cache);
    });
}

/* Seen to fail with a take_spare() that does not ask for the state. */
TEST(Cores, NoCacheIsTakenTwiceAndThereAreAFewMoreThanCores)
{
    with_cores(CORES_ALWAYS, [] {
        ASSERT_TRUE(cores_join(0, 1));
        std::vector<struct cache *> taken = take_all();
        std::set<struct cache *> different(taken.begin(), taken.end());
        EXPECT_EQ(taken.size(), core_limit + SPARES);
        EXPECT_EQ(different.size(), taken.size());
        for (struct cache *cache : taken) {
            EXPECT_TRUE(cache->is_for_cores);
            EXPECT_GE(cache->state, static_cast<unsigned>(CACHE_OWNED));
            cores_return(cache);
        }
        EXPECT_EQ(take_all().size(), taken.size()) << "all are to be had again";
    });
}

/* Seen to fail with a cores_return() that always says CACHE_SPARE. */
TEST(Cores, AReturnedCacheIsInTheSlotOfItsCoreOrSpare)
{
    with_cores(CORES_ALWAYS, [] {
        ASSERT_TRUE(cores_join(0, 1));
        unsigned in_slot = 0;
        for (unsigned i = 0; i < 1000; i++) {
            struct cache *cache = cores_take();
            ASSERT_NE(cache, nullptr);
            for (const struct rseq_slot &slot : core_slots)
                ASSERT_NE(slot.base, cache) << "taken, and in a slot";
            cores_return(cache);
            bool is_in_slot = cache->state == CACHE_IN_SLOT;
            ASSERT_TRUE(is_in_slot || cache->state == CACHE_SPARE);
            ASSERT_TRUE(!is_in_slot || core_slots[cache->core].base == cache);
            in_slot += is_in_slot;
        }
        EXPECT_GT(in_slot, 500u);
    });
}

/* Seen to fail with a withdraw() that leaves caches in slots alone. */
TEST(Cores, ATrimEmptiesAllCachesOfCores)
{
    with_cores(CORES_ALWAYS, [] {
        for (size_t bytes : {100u, 3000u}) /* a new cache, then the same from its slot */
            heap_free(calm_test::alloc_in_cohort(bytes, 0));
        EXPECT_GT(caches_budget.in_use, 0u);
        cores_cool();
        EXPECT_EQ(caches_budget.in_use, 0u);
        cores_cool();
        heap_free(calm_test::alloc_in_cohort(100, 0));
        EXPECT_GT(caches_budget.in_use, 0u);
        cores_cool();
        EXPECT_EQ(caches_budget.in_use, 0u);
    });
}

/* Seen to fail with a cores_fork_adopt() that adopts nothing, and one that adopts all. */
TEST(Cores, AForkedChildHasWhatOtherThreadsHadTakenAndKeepsWhatItHadItself)
{
    with_cores(CORES_ALWAYS, [] {
        ASSERT_TRUE(cores_join(0, 1));
        struct cache *mine = cores_take(), *others = nullptr;
        std::thread([&] {
            ASSERT_TRUE(cores_join(0, 1));
            others = cores_take();
        }).join();
        ASSERT_NE(others, nullptr);
        cores_fork_adopt();
        EXPECT_EQ(others->state, static_cast<unsigned>(CACHE_SPARE));
        EXPECT_GE(mine->state, static_cast<unsigned>(CACHE_OWNED));
    });
}

/* As between the store to the slot and those that say so. Seen to fail with a cores_fork_adopt()
 * that leaves `core` as it is: the cache is emptied, and said to be spare, where it is. */
TEST(Cores, AForkedChildKnowsTheSlotOfACacheThatAnotherThreadWasPuttingThere)
{
    with_cores(CORES_ALWAYS, [] {
        struct cache *others = nullptr;
        for (unsigned tries = 0; tries < 100 && others == nullptr; tries++)
            std::thread([&] {
                ASSERT_TRUE(cores_join(0, 1));
                heap_free(calm_test::alloc_in_cohort(100, 0));
                struct cache *cache = cores_take();
                ASSERT_NE(cache, nullptr);
                cores_return(cache);
                if (cache->state == CACHE_IN_SLOT && cache_has_arrays(cache))
                    others = cache;
            }).join();
        ASSERT_NE(others, nullptr);
        others->core++;
        others->state = reinterpret_cast<uintptr_t>(others) | CACHE_OWNED;
        cores_fork_adopt();
        EXPECT_EQ(others->state, static_cast<unsigned>(CACHE_IN_SLOT));
        EXPECT_EQ(core_slots[others->core].base, others);
        cores_cool();
        ASSERT_EQ(others->state, static_cast<unsigned>(CACHE_SPARE));
        for (const struct rseq_slot &slot : core_slots)
            ASSERT_NE(slot.base, others) << "spare, and in a slot";
    });
}
