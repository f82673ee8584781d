/*
 * rseq_test.cpp: os/rseq.h on a table of slots made by hand: stacks, swaps, aborts and the fence.
 *
 * An operation may be aborted at any time, and says then that there was nothing to do: so what must
 * succeed is tried again, and what must not succeed is tried often.
 */
#include <gtest/gtest.h>

#include <pthread.h>
#include <signal.h>

#include "../heap_support.h"

namespace
{

enum { ENTRY = 64, ARRAY = 128, BLOCKS = 40, TRIES = 1000, CORES = 1024 };

/* What a slot points to: an entry, and its array, whose lowest slot is NULL. */
struct alignas(64) Base {
    char bytes[ARRAY + (BLOCKS + 1) * 8];

    void reset(size_t blocks_max)
    {
        memset(bytes, 0, sizeof bytes);
        top() = ARRAY;
        limit() = static_cast<uint32_t>(ARRAY + blocks_max * 8);
    }

    uint32_t &top()
    {
        return *reinterpret_cast<uint32_t *>(bytes + ENTRY + 8);
    }

    uint32_t &limit()
    {
        return *reinterpret_cast<uint32_t *>(bytes + ENTRY + 12);
    }

    size_t count()
    {
        return (__atomic_load_n(&top(), __ATOMIC_RELAXED) - ARRAY) / 8;
    }
};

rseq_slot slots[CORES];
Base bases[CORES];

void nothing_to_leave() {}

rseq_area *join()
{
    return os_rseq_start() == 0 ? os_rseq_join(nothing_to_leave) : nullptr;
}

/* The lowest last: those are the cores that are in use. */
void point_all_at(void *base)
{
    for (size_t core = CORES; core-- > 0;)
        __atomic_store_n(&slots[core].base, base, __ATOMIC_RELAXED);
}

bool push(rseq_area *area, void *block)
{
    for (unsigned tries = 0; tries < TRIES; tries++)
        if (rseq_push(area, slots, ENTRY, block))
            return true;
    return false;
}

void *pop(rseq_area *area)
{
    void *block = nullptr;
    for (unsigned tries = 0; tries < TRIES && block == nullptr; tries++)
        block = rseq_pop(area, slots, ENTRY);
    return block;
}

} // namespace

#define JOIN_OR_SKIP(area)                                                                         \
    rseq_area *area = join();                                                                      \
    if (area == nullptr)                                                                           \
    GTEST_SKIP() << "no restartable sequences here"

/* Seen to fail with a push that compares with `jae`, and with a pop that does not move the top. */
TEST(Sequences, PushAndPopAreAStackThatEndsAtItsLimitAndAtItsNull)
{
    JOIN_OR_SKIP(area);
    std::vector<char> blocks(BLOCKS);
    bases[0].reset(BLOCKS);
    point_all_at(&bases[0]);
    EXPECT_EQ(pop(area), nullptr);
    for (char &block : blocks)
        ASSERT_TRUE(push(area, &block));
    char one_too_many;
    EXPECT_FALSE(push(area, &one_too_many));
    for (size_t i = blocks.size(); i-- > 0;)
        ASSERT_EQ(pop(area), &blocks[i]);
    EXPECT_EQ(pop(area), nullptr);
    EXPECT_EQ(bases[0].top(), static_cast<uint32_t>(ARRAY));
}

TEST(Sequences, ABaseOfZerosIsEmptyAndFull)
{
    JOIN_OR_SKIP(area);
    memset(&bases[0], 0, sizeof bases[0]);
    point_all_at(&bases[0]);
    EXPECT_EQ(pop(area), nullptr);
    EXPECT_FALSE(push(area, area));
    EXPECT_TRUE(calm_test::is_zero(&bases[0], sizeof bases[0]));
}

/* Seen to fail with a swap that does not compare. */
TEST(Sequences, ASwapReplacesWhatIsExpectedInTheSlotOfTheCoreThatItNames)
{
    JOIN_OR_SKIP(area);
    point_all_at(&bases[0]);
    for (unsigned tries = 0; tries < TRIES; tries++)
        ASSERT_EQ(rseq_swap(area, slots, &bases[1], &bases[2]), -1);
    int core = -1;
    for (unsigned tries = 0; tries < TRIES && core < 0; tries++)
        core = rseq_swap(area, slots, &bases[0], &bases[1]);
    ASSERT_GE(core, 0);
    ASSERT_LT(core, CORES);
    for (int i = 0; i < CORES; i++)
        ASSERT_EQ(slots[i].base, i == core ? &bases[1] : &bases[0]);
}

TEST(Sequences, EachThreadHasAnAreaOfItsOwn)
{
    JOIN_OR_SKIP(area);
    EXPECT_EQ(join(), area);
    std::thread([=] {
        rseq_area *other = join();
        EXPECT_NE(other, nullptr);
        EXPECT_NE(other, area);
    }).join();
}

namespace
{

enum { THREADS = 4, TOKENS = 30, EXCHANGES = 100000, INTERRUPTS = 1000, MISSES_MAX = 20000000 };

int holders[TOKENS];
std::atomic<int> doubled, finished;
char tokens[TOKENS];

size_t number_of(void *token)
{
    return static_cast<size_t>(static_cast<char *>(token) - tokens);
}

/* Takes a token away in the middle of whatever the thread does, or puts it back. */
thread_local rseq_area *area_here;
thread_local void *taken_away;
thread_local volatile unsigned interrupts;

void interrupt(int)
{
    if (area_here == nullptr)
        return;
    interrupts = interrupts + 1;
    if (taken_away == nullptr)
        taken_away = rseq_pop(area_here, slots, ENTRY);
    else if (rseq_push(area_here, slots, ENTRY, taken_away))
        taken_away = nullptr;
}

/* Takes a token from one core, holds it, and puts it on whichever core runs the thread then. */
void exchange_tokens(rseq_area *area)
{
    unsigned misses = 0;
    for (unsigned done = 0; done < EXCHANGES || interrupts < INTERRUPTS;) {
        void *token = rseq_pop(area, slots, ENTRY);
        if (token == nullptr) {
            ASSERT_LT(++misses, MISSES_MAX) << "the tokens are lost";
            std::this_thread::yield();
            continue;
        }
        int *holders_of = &holders[number_of(token)];
        doubled += __atomic_exchange_n(holders_of, 1, __ATOMIC_RELAXED) != 0;
        __atomic_store_n(holders_of, 0, __ATOMIC_RELAXED);
        while (!rseq_push(area, slots, ENTRY, token))
            continue;
        done++;
    }
}

void exchange_interrupted()
{
    rseq_area *area = join();
    area_here = area;
    exchange_tokens(area);
    area_here = nullptr;
    std::atomic_signal_fence(std::memory_order_seq_cst); /* taken_away is no longer touched */
    EXPECT_TRUE(taken_away == nullptr || push(area, taken_away));
    finished++;
}

} // namespace

/*
 * Seen to fail where the area names no sequence, so that none is aborted; where a compiler dropped
 * a failed sequence's NULL; and where the read of `taken_away` came before `interrupt` was told to
 * leave it alone.
 */
TEST(Sequences, ThreadsUnderAStormOfSignalsLoseAndDoubleNothing)
{
    JOIN_OR_SKIP(area);
    static_assert(+TOKENS <= +BLOCKS, "a core has room for all");
    signal(SIGUSR1, interrupt);
    for (size_t core = 0; core < CORES; core++) {
        bases[core].reset(BLOCKS);
        slots[core].base = &bases[core];
    }
    for (char &token : tokens)
        ASSERT_TRUE(push(area, &token)) << "no core has room";
    doubled = finished = 0;
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < THREADS; t++)
        threads.emplace_back(exchange_interrupted);
    while (finished < THREADS)
        for (std::thread &thread : threads)
            pthread_kill(thread.native_handle(), SIGUSR1);
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(doubled, 0);
    std::multiset<size_t> left;
    for (Base &base : bases)
        for (size_t i = 1; i <= base.count(); i++)
            left.insert(number_of(*reinterpret_cast<void **>(base.bytes + ARRAY + i * 8)));
    EXPECT_EQ(left.size(), static_cast<size_t>(TOKENS));
    for (size_t token = 0; token < TOKENS; token++)
        EXPECT_EQ(left.count(token), 1u) << "token " << token;
}

/* Seen to fail with an os_rseq_fence() that only says that it has waited. */
TEST(Sequences, AfterTheFenceNobodyWorksOnWhatWasTakenOutOfTheSlots)
{
    JOIN_OR_SKIP(area);
    (void)area;
    enum { ROUNDS = 30000, LOOKS = 20 };
    static char block;
    std::atomic<bool> is_over{false}, is_working{false};
    for (size_t i = 0; i < 2; i++)
        bases[i].reset(BLOCKS);
    point_all_at(&bases[0]);
    std::thread other([&] {
        rseq_area *own = join();
        while (!is_over) {
            rseq_push(own, slots, ENTRY, &block);
            is_working = true;
            rseq_pop(own, slots, ENTRY);
        }
    });
    while (!is_working)
        std::this_thread::yield();
    unsigned late = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        Base &taken = bases[round % 2];
        point_all_at(&bases[(round + 1) % 2]);
        ASSERT_EQ(os_rseq_fence(), 0);
        size_t count = taken.count();
        for (unsigned looks = 0; looks < LOOKS; looks++)
            late += taken.count() != count;
    }
    is_over = true;
    other.join();
    EXPECT_EQ(late, 0u);
}
