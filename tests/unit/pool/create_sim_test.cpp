/*
 * create_sim_test.cpp: pool/create.c on a kernel that refuses: each refusal has its code, and
 * nothing is left behind.
 */
#include <gtest/gtest.h>

#include "../pool_support.h"

extern "C" {
#include "os/sim/sim.h"
}

using calm_test::PoolConfig;

namespace
{

constexpr size_t MiB = 1 << 20;

struct CreateFailing : testing::Test {
    calm_pool *pool = nullptr;

    int create_refused(PoolConfig config, sim_call kind)
    {
        sim_fail_kind(kind, 1);
        int error = calm_pool_create(config.get(), &pool);
        sim_recover();
        EXPECT_EQ(pool, nullptr);
        EXPECT_EQ(sim_claimed_bytes(), 0u);
        EXPECT_EQ(sim_claimed_locked_bytes(), 0u);
        return error;
    }
};

TEST_F(CreateFailing, EveryRefusalHasItsCode)
{
    EXPECT_EQ(create_refused({{64}, {100}, MiB}, SIM_CLAIM), CALM_ENOMEM);
    EXPECT_EQ(create_refused({{64}, {100}, MiB, CALM_POOL_HUGE}, SIM_CLAIM), CALM_EHUGE);
    EXPECT_EQ(create_refused({{64}, {100}, MiB}, SIM_POPULATE), CALM_ENOMEM);
    EXPECT_EQ(create_refused({{64}, {100}, MiB, CALM_POOL_LOCK}, SIM_LOCK), CALM_ELOCK);
    EXPECT_EQ(create_refused({{64}, {100}, MiB, CALM_POOL_LOCK}, SIM_POPULATE), CALM_ENOMEM);
}

TEST_F(CreateFailing, MemoryGivenIsUnlockedAgainAndUntouched)
{
    static char memory[64 * 1024] __attribute__((aligned(64)));
    memset(memory, 7, sizeof memory);
    PoolConfig config({64}, {100}, sizeof memory, CALM_POOL_LOCK);
    config.plain.memory = memory;
    EXPECT_EQ(create_refused(config, SIM_LOCK), CALM_ELOCK);
    EXPECT_EQ(create_refused(config, SIM_POPULATE), CALM_ENOMEM);
    EXPECT_EQ(std::count(memory, memory + sizeof memory, 7), long(sizeof memory));
    ASSERT_EQ(calm_pool_create(config.get(), &pool), 0);
    EXPECT_EQ(sim_claimed_locked_bytes(), sizeof memory);
    calm_pool_destroy(pool);
    EXPECT_EQ(sim_claimed_locked_bytes(), 0u);
}

TEST_F(CreateFailing, TooManyPoolsAreRefused)
{
    PoolConfig config({64}, {100}, 64 * 1024);
    std::vector<calm_pool *> pools;
    int error;
    while ((error = calm_pool_create(config.get(), &pool)) == 0)
        pools.push_back(pool);
    EXPECT_EQ(error, CALM_EPOOLS);
    EXPECT_EQ(pools.size(), size_t(CALM_POOLS_MAX));
    EXPECT_EQ(sim_claimed_bytes(), pools.size() * 64 * 1024);
    for (calm_pool *one : pools)
        calm_pool_destroy(one);
    EXPECT_EQ(sim_claimed_bytes(), 0u);
}

TEST_F(CreateFailing, NoOperationAsksTheKernel)
{
    PoolConfig config({64, 4096}, {50, 50}, MiB, CALM_POOL_SPILL);
    ASSERT_EQ(calm_pool_create(config.get(), &pool), 0);
    uint64_t before = sim_fallible_calls();
    for (int round = 0; round < 3; round++) {
        std::vector<void *> blocks;
        while (void *block = calm_pool_alloc(pool, 64))
            blocks.push_back(block);
        for (void *block : blocks)
            blocks.size() % 2 ? calm_pool_free(pool, block) : calm_pool_free_remote(pool, block);
        calm_pool_drain(pool);
    }
    EXPECT_EQ(sim_fallible_calls(), before);
    calm_pool_destroy(pool);
}

} // namespace
