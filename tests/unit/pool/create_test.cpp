/*
 * create_test.cpp: pool/create.c on the real kernel: residence, given memory, and what happens to
 * pages while a pool is used.
 */
#include <gtest/gtest.h>

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../errno_support.h"
#include "../pool_support.h"

using calm_test::Pool;
using calm_test::PoolConfig;

namespace
{

constexpr size_t MiB = 1 << 20;

/* For a test that counts pages one by one: huge ones come to this process no more, even where the
 * machine always gives them. */
void small_pages_only()
{
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
}

size_t resident_pages(const calm_pool *pool)
{
    auto start = reinterpret_cast<uintptr_t>(pool) & ~static_cast<uintptr_t>(4095);
    std::vector<unsigned char> pages((pool->bytes + 4095) / 4096);
    EXPECT_EQ(mincore(reinterpret_cast<void *>(start), pool->bytes, pages.data()), 0);
    return static_cast<size_t>(
        std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return page & 1; }));
}

long faults()
{
    rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt + usage.ru_majflt;
}

size_t locked_kib()
{
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;)
        if (word == "VmLck:")
            return status >> word, std::stoul(word);
    return 0;
}

TEST(Create, EveryPageIsThereUnlessLazy)
{
    small_pages_only();
    Pool pool({{64}, {100}, 8 * MiB});
    EXPECT_EQ(resident_pages(pool), 2048u);
    Pool lazy({{64}, {100}, 8 * MiB, CALM_POOL_LAZY});
    EXPECT_LT(resident_pages(lazy), 200u);
}

/* Twelve classes, and only one is used: what the others would need is not there, and what the one
 * needs is below 2 % of its blocks, but for some pages. */
TEST(Create, ALazyPoolsBookkeepingIsThatOfTheBlocksInUse)
{
    small_pages_only();
    std::vector<size_t> sizes = {16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 16384, 65536, MiB};
    Pool pool({sizes, {20, 20, 8, 3, 3, 5, 20, 3, 6, 4, 4, 4}, 256 * MiB, CALM_POOL_LAZY});
    ASSERT_EQ(pool.error, 0);
    constexpr size_t own = 8; /* the pool with its tables and classes */
    EXPECT_LE(resident_pages(pool), own);
    constexpr size_t blocks = 1'000'000;
    ASSERT_GT(pool.limits.blocks[0], 2 * blocks);
    void *block = nullptr;
    for (size_t i = 0; i < blocks; i++) {
        block = calm_pool_alloc(pool, 16);
        memset(block, 1, 16);
    }
    size_t pages = blocks * 16 / 4096;
    EXPECT_GE(resident_pages(pool), pages);
    EXPECT_LE(resident_pages(pool), pages + pages / 50 + own);
    EXPECT_EQ(calm_pool_free(pool, block), 0);
}

/* Page faults while every block of a pool is taken and freed, twice. */
long faults_of_a_pool_in_use()
{
    Pool pool({{16, 4096}, {50, 50}, 16 * MiB, CALM_POOL_SPILL});
    std::vector<void *> blocks(pool.limits.blocks[0] + pool.limits.blocks[1], nullptr);
    calm_pool_free(pool, calm_pool_alloc(pool, 16)); /* the code's own pages */
    calm_pool_free_remote(pool, calm_pool_alloc(pool, 4096));
    calm_pool_drain(pool);
    calm_pool_alloc(pool, MiB);
    calm_pool_free(pool, &pool);
    long before = faults();
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < blocks.size(); i++) {
            blocks[i] = calm_pool_alloc(pool, i % 2 ? 16 : 4096);
            if (blocks[i] != nullptr)
                memset(blocks[i], 1, 16);
        }
        for (size_t i = 0; i < blocks.size(); i++)
            i % 3 ? calm_pool_free(pool, blocks[i]) : calm_pool_free_remote(pool, blocks[i]);
    }
    return faults() - before;
}

TEST(Create, UsingAPoolFaultsNoPageIn)
{
    if (calm_test::is_sanitized)
        GTEST_SKIP() << "a sanitizer's own memory faults in meanwhile";
    small_pages_only();
    long least = faults_of_a_pool_in_use();
    for (int tries = 1; tries < 5 && least > 0; tries++) /* the kernel may take a page away */
        least = std::min(least, faults_of_a_pool_in_use());
    EXPECT_EQ(least, 0);
    /* The control: memory that is not populated does fault. */
    Pool lazy({{4096}, {100}, 4 * MiB, CALM_POOL_LAZY});
    long before = faults();
    for (int i = 0; i < 500; i++)
        memset(calm_pool_alloc(lazy, 4096), 1, 4096);
    EXPECT_GT(faults() - before, 0);
}

TEST(Create, LockedPagesAreLockedUntilTheEnd)
{
    size_t before = locked_kib();
    {
        Pool pool({{64}, {100}, 2 * MiB, CALM_POOL_LOCK});
        if (pool.error == CALM_ELOCK)
            GTEST_SKIP() << "this machine lets nobody lock 2 MiB";
        ASSERT_EQ(pool.error, 0);
        EXPECT_GE(locked_kib(), before + 2048);
        EXPECT_EQ(resident_pages(pool), 512u);
    }
    EXPECT_EQ(locked_kib(), before);
}

TEST(Create, HugePagesAreAskedForOnAnAlignedMapping)
{
    Pool pool({{64}, {100}, 4 * MiB, CALM_POOL_HUGE});
    if (pool.error == CALM_EHUGE)
        GTEST_SKIP() << "this kernel has no huge pages";
    ASSERT_EQ(pool.error, 0);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(static_cast<calm_pool *>(pool)) % (2 * MiB), 0u);
    EXPECT_NE(calm_pool_alloc(pool, 64), nullptr);
}

TEST(Create, MemoryGivenIsNotLeft)
{
    constexpr size_t bytes = 64 * 1024, around = 4096;
    std::vector<char> room(bytes + 3 * around, 'x');
    auto start = reinterpret_cast<uintptr_t>(room.data());
    char *memory = room.data() + ((start + around + 63) / 64 * 64 - start);
    PoolConfig config({16, 100, 1000}, {30, 30, 40}, bytes);
    config.plain.memory = memory;
    {
        Pool pool(config);
        ASSERT_EQ(pool.error, 0);
        for (size_t size : {16, 100, 1000})
            while (auto *block = static_cast<char *>(calm_pool_alloc(pool, size))) {
                EXPECT_GE(block, memory);
                EXPECT_LE(block + size, memory + bytes);
                memset(block, 1, size);
            }
    }
    EXPECT_EQ(std::count(room.data(), memory, 'x'), memory - room.data());
    EXPECT_EQ(std::count(memory + bytes, room.data() + room.size(), 'x'),
              room.data() + room.size() - (memory + bytes));
}

TEST(Create, DestroyReturnsTheMapping)
{
    calm_pool *pool;
    size_t sizes[] = {64};
    uint32_t shares[] = {100};
    ASSERT_EQ(calm_pool_init(&pool, sizes, 1, shares, 4 * MiB), 0);
    auto start = reinterpret_cast<uintptr_t>(pool);
    calm_pool_destroy(pool);
    for (const auto &mapping : calm_test::mappings())
        EXPECT_FALSE(mapping.start <= start && start < mapping.end);
    calm_pool_destroy(nullptr);
}

TEST(Create, TheConfigurationIsNotNeededAfterwards)
{
    calm_pool *pool;
    {
        PoolConfig config({64, 128}, {50, 50}, MiB);
        ASSERT_EQ(calm_pool_create(config.get(), &pool), 0);
        config.sizes.assign(2, 0);
        config.shares.assign(2, 0);
    }
    EXPECT_EQ(calm_pool_usable_size(pool, calm_pool_alloc(pool, 100)), 128u);
    calm_pool_destroy(pool);
}

/* Seen to fail with a claim_map that writes to errno. */
TEST(Create, NoFunctionTouchesErrno)
{
    calm_pool *pool = nullptr;
    calm_pool_limits limits;
    calm_pool_stats stats;
    PoolConfig huge({64}, {100}, size_t(1) << 46), good({64, 4096}, {50, 50}, MiB);
    KEEPS_ERRNO(calm_pool_create(huge.get(), &pool));
    KEEPS_ERRNO(calm_pool_create(nullptr, &pool));
    KEEPS_ERRNO(calm_pool_bound(good.get(), &limits));
    good.plain.flags = CALM_POOL_LOCK; /* refused on some machines */
    KEEPS_ERRNO(calm_pool_create(good.get(), &pool));
    KEEPS_ERRNO((calm_pool_destroy(pool), 0));
    good.plain.flags = CALM_POOL_HUGE;
    pool = nullptr;
    KEEPS_ERRNO(calm_pool_create(good.get(), &pool));
    KEEPS_ERRNO((calm_pool_destroy(pool), 0));
    good.plain.flags = 0;
    KEEPS_ERRNO(calm_pool_create(good.get(), &pool));
    void *block = nullptr;
    KEEPS_ERRNO(block = calm_pool_alloc(pool, 64));
    KEEPS_ERRNO(calm_pool_alloc(pool, 2 * MiB));
    KEEPS_ERRNO(calm_pool_alloc_aligned(pool, 64, 3));
    KEEPS_ERRNO(calm_pool_free(pool, block));
    KEEPS_ERRNO(calm_pool_free(pool, block));
    KEEPS_ERRNO(calm_pool_free_remote(pool, &pool));
    KEEPS_ERRNO(calm_pool_drain(pool));
    KEEPS_ERRNO(calm_pool_usable_size(pool, &pool));
    KEEPS_ERRNO(calm_pool_watch_bytes(calm_pool_watch(pool)));
    KEEPS_ERRNO((calm_pool_stats_read(pool, &stats), 0));
    KEEPS_ERRNO(calm_strerror(-1));
    KEEPS_ERRNO((calm_pool_destroy(pool), 0));
}

} // namespace
