/*
 * depot_put_test.cpp: core/depot_put.c loses no block, in whatever order blocks come and whoever
 * has the depot, and finds those that come twice.
 */
#include "depot_support.h"

#include <sys/resource.h>

#include <optional>

using DepotPutTest = DepotTest;

/* Whole words at a time where they come in order; across words, the ends of slabs and gaps, too.
 * Seen to fail with runs that begin one block too high. */
TEST_F(DepotPutTest, BlocksFreedInOrderUpwardsOrDownwardsAllComeBackWhereTheyWere)
{
    for (size_t bytes : {16, 48, 64, 1024, 8192}) {
        unsigned bin = bin_for(52, bytes);
        size_t count = 2 * (CHUNK_BYTES / bytes) + 7, gap = count / 3;
        for (unsigned way = 0; way < 4; way++) {
            std::vector<void *> blocks = taken_from(bin, count);
            ASSERT_EQ(blocks.size(), count);
            std::sort(blocks.begin(), blocks.end());
            void *last = blocks[gap];
            blocks.erase(blocks.begin() + static_cast<long>(gap));
            if (way % 2 == 1)
                std::reverse(blocks.begin(), blocks.end());
            if (way >= 2)
                std::reverse(blocks.begin(), blocks.begin() + 5);
            put_all(bin, blocks);
            EXPECT_EQ(depot_verify(), nullptr);
            EXPECT_FALSE(depot_holds(bin, last));
            for (void *block : blocks)
                ASSERT_TRUE(depot_holds(bin, block) ||
                            bin_class(region_bin(region_chunk(block))) == 0);
            put(bin, &last, 1);
            EXPECT_TRUE(depot_holds(bin, last) || bin_class(region_bin(region_chunk(last))) == 0);
        }
    }
}

/* Seen to fail with a run's refusal taken for all of its blocks. */
TEST_F(DepotPutTest, ADoubleFreeAmongNeighboursIsReportedAndTheOthersComeBack)
{
    unsigned bin = bin_for(53, 64);
    std::vector<void *> blocks = taken_from(bin, 20);
    ASSERT_EQ(blocks.size(), 20u);
    std::sort(blocks.begin(), blocks.end());
    put(bin, &blocks[7], 1);
    struct misuse_policy before = misuse_policy;
    misuse_policy.stops_on_misuse = false;
    uint64_t misuses = misuse_count();
    put_all(bin, blocks);
    EXPECT_EQ(misuse_count() - misuses, 1u);
    misuse_policy = before;
    for (void *block : blocks)
        EXPECT_TRUE(depot_holds(bin, block));
}

TEST_F(DepotPutTest, OneUsersBlocksGoToBitmapsAndASecondUserMakesBatches)
{
    unsigned bin = bin_for(43, 96);
    std::vector<void *> blocks = taken_from(bin, 100);
    depot_flush(bin, blocks.data(), 50, user);
    EXPECT_EQ(batch_count(&depot_of(bin)->batches), 0u);
    depot_flush(bin, blocks.data() + 50, 50, user + 1);
    EXPECT_EQ(batch_count(&depot_of(bin)->batches), 1u);
    for (size_t i = 0; i < 100; i++)
        EXPECT_TRUE(depot_holds(bin, blocks[i])) << i;
    EXPECT_EQ(depot_drain(depot_of(bin), true), 50u);
    EXPECT_EQ(batch_count(&depot_of(bin)->batches), 0u);
    for (size_t i = 0; i < 100; i++)
        EXPECT_TRUE(depot_holds(bin, blocks[i])) << i;
    std::vector<void *> again = taken_from(bin, 10);
    EXPECT_FALSE(depot_holds(bin, again[3]));
    put_all(bin, again);
}

/* Seen to hang where a flush waits for the lock once the stack has no room, and to fail where it
 * waits a while. */
TEST_F(DepotPutTest, AFlushOfAnyNumberOfBlocksNeedsNoRoomForBatches)
{
    for (size_t bytes : {112u, 20000u}) {
        unsigned bin = bin_for(49, bytes);
        const size_t each = batch_blocks_of(bytes);
        std::vector<void *> blocks = taken_from(bin, bytes < 1000 ? 50000 : 1200);
        struct depot *depot = depot_of(bin);
        while_held(depot, 20000, [&] {
            for (unsigned turn = 0; turn < 2; turn++) {
                for (size_t at = 0; at < blocks.size(); at += each)
                    depot_flush(bin, blocks.data() + at, std::min(each, blocks.size() - at), user);
                EXPECT_EQ(depot_batch_blocks(depot), blocks.size());
                if (turn == 0) { /* a wait that was in vain is noted */
                    EXPECT_EQ(depot->lock.given_up, PATIENCE_NONE);
                }
                std::set<void *> missing(blocks.begin(), blocks.end());
                for (void *out[REFILL_MAX]; turn == 0 && !missing.empty();) {
                    size_t count = depot_refill(bin, out, each, user);
                    for (size_t i = 0; i < count; i++)
                        ASSERT_EQ(missing.erase(out[i]), 1u);
                }
            }
        });
        EXPECT_EQ(depot_drain(depot, true), blocks.size());
        EXPECT_EQ(depot_batch_count(depot), 0u);
        EXPECT_EQ(depot->free_blocks, depot->slab_count * class_facts[class_of(bytes)].capacity);
    }
}

/* While it lives the process gets no memory for anything that is not there yet. */
class NoMemory
{
  public:
    NoMemory()
    {
        EXPECT_EQ(getrlimit(RLIMIT_DATA, &before_), 0);
        struct rlimit none = {4096, before_.rlim_max}; /* the kernel takes 0 for no limit */
        EXPECT_EQ(setrlimit(RLIMIT_DATA, &none), 0);
    }

    ~NoMemory()
    {
        EXPECT_EQ(setrlimit(RLIMIT_DATA, &before_), 0);
    }

    NoMemory(const NoMemory &) = delete;
    NoMemory &operator=(const NoMemory &) = delete;

  private:
    struct rlimit before_ = {};
};

/* Seen to hang where what has no room in the stack takes a batch that must be made. A sanitizer
 * needs memory of its own; there deferred and batches share the blocks all the same. */
TEST_F(DepotPutTest, AFlushToAHeldDepotNeedsNoMemory)
{
    unsigned bin = bin_for(48, 64);
    std::vector<void *> blocks = taken_from(bin, 60000);
    std::sort(blocks.begin(), blocks.end());
    struct depot *depot = depot_of(bin);
    while_held(depot, 20000, [&] {
        std::optional<NoMemory> none;
        if (!calm_test::is_sanitized)
            none.emplace();
        size_t mapped = meta_mapped_bytes();
        for (size_t at = 0; at < blocks.size(); at += BATCH_BLOCKS)
            depot_flush(bin, blocks.data() + at, std::min<size_t>(BATCH_BLOCKS, blocks.size() - at),
                        user);
        EXPECT_GT(load(&depot->deferred.blocks, RELAXED), blocks.size() / 4);
        EXPECT_TRUE(!none || meta_mapped_bytes() == mapped);
    });
    EXPECT_EQ(depot_batch_blocks(depot), blocks.size());
    for (size_t i = 0; i < blocks.size(); i += 501)
        EXPECT_TRUE(depot_holds(bin, blocks[i])) << i;
    std::vector<void *> again = taken_from(bin, 1);
    EXPECT_FALSE(depot_holds(bin, again[0]));
    put_all(bin, again);
    EXPECT_EQ(depot_drain(depot, true), blocks.size());
    EXPECT_EQ(depot_batch_count(depot), 0u);
    EXPECT_EQ(depot->free_blocks, depot->slab_count * class_facts[class_of(64)].capacity);
}

/* Seen to fail where whatever lies in the stack is handed out and put. */
TEST_F(DepotPutTest, DeferredFreesOfAnotherClassThatLieInADepotsStackGoToTheirOwn)
{
    unsigned small = bin_for(48, 80), large = bin_for(48, 96);
    std::vector<void *> blocks = taken_from(large, 20), others = taken_from(small, 1);
    std::sort(blocks.begin(), blocks.end());
    struct depot *depot = depot_of(small), *own = depot_of(large);
    put_all(small, others);
    /* What a thread leaves that was stopped after it had set its bit, until the slab had gone. */
    struct slab *slab = slab_of_chunk(region_chunk(blocks[0]));
    for (void *block : blocks)
        ASSERT_EQ(region_chunk(block), slab->chunk);
    uint32_t number = class_block(bin_class(large),
                                  static_cast<uint16_t>(reinterpret_cast<uintptr_t>(blocks[0])));
    ASSERT_TRUE(deferred_put(&depot->deferred, slab, number));
    fetch_sub(&depot->deferred.blocks, 1, RELAXED);
    ASSERT_TRUE(deferred_put(&own->deferred, slab, number + 1)); /* it is in a stack already */

    void *out[REFILL_MAX];
    fetch_add(&own->deferred.blocks, 1, RELAXED);
    EXPECT_EQ(depot_batch_pop(depot, out), 0u);
    EXPECT_EQ(load(&depot->deferred.blocks, RELAXED), 0u);
    EXPECT_EQ(load(&own->deferred.blocks, RELAXED), 2u);
    EXPECT_TRUE(depot_holds(large, blocks[0]));
    EXPECT_EQ(depot_batch_pop(own, out), 2u);
    EXPECT_EQ(load(&own->deferred.blocks, RELAXED), 0u);
    put_all(large, blocks);
}

/* Seen to fail where all of a class is handed out: a sampled block's free was told for a block that
 * was never sampled. */
TEST_F(DepotPutTest, SampledDeferredFreesThatLieInAnotherDepotsStackAreSampledOnes)
{
    unsigned plain = bin_for(48, 112), sampled = bin_for(COHORT_SAMPLED, 112);
    put_all(plain, taken_from(plain, 1));
    std::vector<void *> blocks = taken_from(sampled, 3);
    struct depot *depot = depot_of(plain), *own = depot_of(sampled);
    struct slab *slab = slab_of_chunk(region_chunk(blocks[0]));
    for (size_t i = 0; i < 2; i++) {
        auto address = reinterpret_cast<uintptr_t>(blocks[i]);
        unsigned number = class_block(bin_class(sampled), static_cast<uint16_t>(address));
        ASSERT_TRUE(deferred_put(i == 0 ? &depot->deferred : &own->deferred, slab, number));
    }
    void *out[REFILL_MAX];
    EXPECT_EQ(depot_batch_pop(depot, out), 0u);
    EXPECT_EQ(depot_batch_pop(own, out), 2u);
    put_all(sampled, blocks);
}

/* Seen to fail where a depot's number of deferred is added up as if it were never below zero: all
 * live blocks of the class were reported as cached. */
TEST_F(DepotPutTest, DeferredFreesOfASlabThatTwoDepotsPutAsideAreCountedOnce)
{
    unsigned first = bin_for(48, 112), second = bin_for(49, 112);
    std::vector<void *> others = taken_from(first, 1), blocks = taken_from(second, 20);
    put_all(first, others);
    struct depot *depot = depot_of(first), *own = depot_of(second);
    size_t before = depot_batch_blocks(depot) + depot_batch_blocks(own);
    size_t bytes_before = depot_deferred_bytes();
    /* One was freed before the slab came to its depot, and is put aside by the depot it left. */
    struct slab *slab = slab_of_chunk(region_chunk(blocks[0]));
    ASSERT_EQ(region_chunk(blocks[1]), slab->chunk);
    for (size_t i = 0; i < 2; i++) {
        auto address = reinterpret_cast<uintptr_t>(blocks[i]);
        unsigned number = class_block(bin_class(second), static_cast<uint16_t>(address));
        ASSERT_TRUE(deferred_put(i == 0 ? &depot->deferred : &own->deferred, slab, number));
    }
    EXPECT_EQ(depot_batch_blocks(depot) + depot_batch_blocks(own), before + 2);
    EXPECT_EQ(depot_deferred_bytes(), bytes_before + 2 * 112);
    void *out[REFILL_MAX];
    EXPECT_EQ(depot_batch_pop(depot, out), 2u);
    EXPECT_EQ(depot_batch_blocks(depot) + depot_batch_blocks(own), before);
    EXPECT_EQ(depot_deferred_bytes(), bytes_before);
    put_all(second, blocks);
}

/* `count` blocks that lie side by side, from the lowest on, none of which is free. */
static std::vector<void *> run_from(unsigned bin, size_t count)
{
    std::vector<void *> blocks;
    do {
        put_all(bin, blocks);
        blocks = taken_from(bin, CHUNK_BYTES / bin_bytes(bin));
        std::sort(blocks.begin(), blocks.end());
    } while (region_chunk(blocks[0]) != region_chunk(blocks[count - 1]));
    put_all(bin, std::vector<void *>(blocks.begin() + static_cast<long>(count), blocks.end()));
    blocks.resize(count);
    return blocks;
}

static void expect_all_free(unsigned bin, const std::vector<void *> &blocks)
{
    for (void *block : blocks)
        EXPECT_TRUE(depot_holds(bin, block) || bin_class(region_bin(region_chunk(block))) == 0);
    EXPECT_EQ(depot_verify(), nullptr);
}

static void give_run(unsigned bin, const std::vector<void *> &run, uint32_t user_now = user)
{
    depot_flush_run(bin, static_cast<char *>(run[0]), run.size(), user_now);
}

/* Seen to fail with words that begin at the run's first block instead of at the map's. */
TEST_F(DepotPutTest, ARunOfNeighboursComesBackAtOnceWhereverItBegins)
{
    calm_test::Random random(31);
    for (size_t bytes : {16, 48, 64, 1024}) {
        unsigned bin = bin_for(54, bytes);
        for (unsigned turn = 0; turn < 50; turn++) {
            size_t most = std::min<size_t>(CHUNK_BYTES / bytes, REFILL_MAX);
            std::vector<void *> run = run_from(bin, most);
            size_t cut = random.below(most), count = 1 + random.below(most - cut);
            std::vector<void *> part(run.begin() + static_cast<long>(cut),
                                     run.begin() + static_cast<long>(cut + count));
            run.erase(run.begin() + static_cast<long>(cut),
                      run.begin() + static_cast<long>(cut + count));
            give_run(bin, part);
            expect_all_free(bin, part);
            for (void *block : run)
                EXPECT_FALSE(depot_holds(bin, block));
            put_all(bin, run);
        }
        EXPECT_EQ(depot_of(bin)->free_blocks,
                  depot_of(bin)->slab_count * class_facts[class_of(bytes)].capacity);
    }
}

/* Seen to fail with a run that ends at the first word with a block that is free. */
TEST_F(DepotPutTest, ARunWithABlockThatIsFreeAlreadyIsReportedAndTheOthersComeBack)
{
    unsigned bin = bin_for(55, 16);
    std::vector<void *> run = run_from(bin, 100);
    put(bin, &run[70], 1);
    struct misuse_policy before = misuse_policy;
    misuse_policy.stops_on_misuse = false;
    uint64_t misuses = misuse_count();
    give_run(bin, run);
    EXPECT_EQ(misuse_count() - misuses, 1u);
    misuse_policy = before;
    expect_all_free(bin, run);
}

/* Seen to fail with a slab that is emptied by a run and stays in its list. */
TEST_F(DepotPutTest, RunsThatEmptySlabsGiveAllButOneBack)
{
    unsigned bin = bin_for(56, 1024);
    std::vector<void *> blocks = taken_from(bin, 64 * 20);
    std::sort(blocks.begin(), blocks.end());
    for (size_t at = 0; at < blocks.size(); at += 64)
        depot_flush_run(bin, static_cast<char *>(blocks[at]), 64, user);
    EXPECT_EQ(depot_of(bin)->slab_count, 1u);
    EXPECT_EQ(depot_of(bin)->free_blocks, 64u);
}

/* Seen to fail with a give_run() that heeds neither the lock nor the bin of the slab. */
TEST_F(DepotPutTest, ARunOfAnothersSlabOrOfAHeldOrSharedDepotTakesTheOtherWays)
{
    unsigned bin = bin_for(57, 64), other = bin_for(58, 64);
    std::vector<void *> run = run_from(bin, 60);
    taken_from(other, 1);
    depot_lend_share = 1 << 20;
    give_run(other, run);
    expect_all_free(bin, run);

    run = run_from(bin, 60);
    struct depot *depot = depot_of(bin);
    while_held(depot, 5000, [&] { give_run(bin, run); });
    EXPECT_EQ(depot_batch_blocks(depot), run.size());
    expect_all_free(bin, run);
    depot_drain(depot, true);

    run = run_from(bin, 60);
    give_run(bin, run, user + 1);
    EXPECT_EQ(depot_batch_blocks(depot), run.size());
    EXPECT_EQ(depot_drain(depot, true), run.size());
    expect_all_free(bin, run);
}
