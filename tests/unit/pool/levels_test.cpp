/*
 * levels_test.cpp: pool/levels.h: against plain sets and loops.
 */
#include <gtest/gtest.h>

#include "../pool_support.h"

namespace
{

struct Levels {
    uint64_t root = 0;
    std::vector<uint64_t> far = std::vector<uint64_t>(LEVEL_FAR_MAX);
    std::vector<uint64_t> near = std::vector<uint64_t>(LEVEL_NEAR_MAX);

    void set(uint32_t w)
    {
        levels_set(&root, far.data(), near.data(), w);
    }
    void clear(uint32_t w)
    {
        levels_clear(&root, far.data(), near.data(), w);
    }
    uint32_t first() const
    {
        return levels_first(&root, far.data(), near.data());
    }
};

TEST(Levels, TheFirstIsTheLowestOfASet)
{
    Levels levels;
    std::set<uint32_t> oracle;
    calm_test::Random random(1);
    for (int step = 0; step < 200000; step++) {
        /* Mostly few and far apart, so that words above empty and fill again. */
        uint32_t w = static_cast<uint32_t>(random.below(LEVEL_WORDS_MAX));
        if (!oracle.empty() && random.below(2) == 0) {
            auto at = oracle.lower_bound(w);
            w = at == oracle.end() ? *oracle.begin() : *at;
            levels.clear(w);
            oracle.erase(w);
        } else {
            levels.set(w);
            oracle.insert(w);
        }
        ASSERT_EQ(levels.root == 0, oracle.empty());
        if (!oracle.empty()) {
            ASSERT_EQ(levels.first(), *oracle.begin());
        }
    }
}

TEST(Levels, TheLastWordOfAllIsReached)
{
    Levels levels;
    levels.set(LEVEL_WORDS_MAX - 1);
    EXPECT_EQ(levels.first(), static_cast<uint32_t>(LEVEL_WORDS_MAX - 1));
    levels.clear(LEVEL_WORDS_MAX - 1);
    EXPECT_EQ(levels.root, 0u);
}

TEST(Levels, ClearingWhatIsClearChangesNothing)
{
    Levels levels;
    levels.set(70);
    levels.clear(71);
    levels.clear(5000);
    EXPECT_EQ(levels.first(), 70u);
}

TEST(LevelCount, CountsAsTheCompilerDoes)
{
    calm_test::Random random(2);
    EXPECT_EQ(level_count(0), 0u);
    EXPECT_EQ(level_count(UINT64_MAX), 64u);
    for (int i = 0; i < 10000; i++) {
        uint64_t word = random.next() & random.next();
        ASSERT_EQ(level_count(word), static_cast<uint32_t>(__builtin_popcountll(word)));
    }
}

TEST(KeysBelow, CountsTheKeysBelow)
{
    calm_test::Random random(3);
    for (size_t count = 1; count <= KEYS; count++) {
        std::vector<uint64_t> keys(KEYS, UINT64_MAX);
        for (size_t i = 0; i < count; i++)
            keys[i] = random.below(200);
        std::sort(keys.begin(), keys.end());
        for (uint64_t value = 0; value <= keys[KEYS - 1] && value < 202; value++) {
            auto below = std::lower_bound(keys.begin(), keys.end(), value) - keys.begin();
            ASSERT_EQ(keys_below(keys.data(), value), static_cast<uint32_t>(below));
        }
    }
}

} // namespace
