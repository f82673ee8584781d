/*
 * lifetime_test.cpp: site/lifetime.c on made-up populations of sites, whose lifetimes are known.
 *
 * A population is played forward in periods; what is seen of each site's blocks goes to the
 * decisions, as site/learned.c would pass it. The oracle is the population itself.
 */
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>
#include <vector>

#include "../heap_support.h"

enum { FOLLOWED = 16, PERIOD = 1000, CLASSES = 7 << 16 /* 240, 256 and 288 bytes */ };

static double never = INFINITY;

struct Site {
    double lifetime; /* the mean, of an exponential distribution */
    uint32_t bytes;
    uint64_t classes;
    uint64_t rate; /* blocks in a unit of the clock, in LIFETIME_RATE */
    double starts; /* asks for nothing before */
};

/* A heap of sites, of which some blocks each are followed; one that dies is replaced. */
class Population
{
  public:
    explicit Population(const std::vector<Site> &all, uint64_t seed = 1)
        : sites(all), seen(all.size()), dies(all.size()), random(seed)
    {
    }

    /* One period, and the decision at its end. Returns how many moved. */
    size_t play()
    {
        for (size_t i = 0; i < sites.size(); i++)
            play_site(i);
        now += PERIOD;
        return lifetime_decide(seen.data(), seen.size(), order);
    }

    size_t play(unsigned periods)
    {
        size_t moved = 0;
        while (periods-- > 0)
            moved += play();
        return moved;
    }

    /* From now on a site's blocks live so long, those that are there included. */
    void change(size_t site, double lifetime)
    {
        sites[site].lifetime = lifetime;
        for (double &death : dies[site])
            death = now + draw_lifetime(site);
    }

    unsigned cohort(size_t site) const
    {
        return seen[site].cohort;
    }
    const lifetime_site &of(size_t site) const
    {
        return seen[site];
    }

    size_t cohorts() const
    {
        std::set<unsigned> all;
        for (const auto &site : seen)
            all.insert(site.cohort);
        return all.size();
    }

  private:
    double draw()
    {
        return static_cast<double>((random.next() >> 11) + 1) / 9007199254740994.0;
    }

    double draw_lifetime(size_t i)
    {
        return std::isinf(sites[i].lifetime) ? never : -std::log(draw()) * sites[i].lifetime;
    }

    void play_site(size_t i)
    {
        lifetime_site *site = &seen[i];
        double end = now + PERIOD, exposure = 0;
        site->deaths_new = 0;
        if (now < sites[i].starts)
            return;
        while (dies[i].size() < FOLLOWED) {
            dies[i].push_back(now + draw_lifetime(i));
            site->samples++;
        }
        for (double &death : dies[i]) {
            exposure += std::fmin(death, end) - now;
            if (death >= end)
                continue;
            site->deaths_new++;
            death = end + draw_lifetime(i);
            site->samples++;
        }
        site->exposure_new = static_cast<uint64_t>(exposure);
        site->rate = sites[i].rate;
        site->age = static_cast<uint64_t>(end);
        site->bytes = sites[i].bytes;
        site->classes = sites[i].classes;
    }

    std::vector<Site> sites;
    std::vector<lifetime_site> seen;
    std::vector<std::vector<double>> dies;
    calm_test::Random random;
    uint16_t order[64];
    double now = 0;
};

static Site site_of(double lifetime, uint64_t blocks_live = 100000)
{
    double mean = std::isinf(lifetime) ? 1000 * PERIOD : lifetime;
    double rate = static_cast<double>(blocks_live) / mean;
    return {lifetime, 256, CLASSES, static_cast<uint64_t>(std::fmax(1, rate * LIFETIME_RATE)), 0};
}

static std::vector<Site> several(size_t count, double lifetime)
{
    return std::vector<Site>(count, site_of(lifetime));
}

static std::vector<Site> operator+(std::vector<Site> left, const std::vector<Site> &right)
{
    left.insert(left.end(), right.begin(), right.end());
    return left;
}

TEST(Lifetime, ALogarithmIsWithinAHundredthOfTheExactOne)
{
    for (uint64_t value = 1; value < UINT64_MAX / 3; value += value / 7 + 1) {
        double exact = std::log2(static_cast<double>(value));
        double found = lifetime_log2(value) / static_cast<double>(1 << LIFETIME_LOG_BITS);
        ASSERT_NEAR(found, exact, 0.01) << value;
    }
}

/* Seen to fail with the exposure itself in place of the expected deaths. */
TEST(Lifetime, TwoKindsOfSitesHaveTwoCohortsAndTheKindsDoNotMix)
{
    Population heap(several(8, 3 * PERIOD) + several(8, 300 * PERIOD));
    heap.play(40);
    ASSERT_EQ(heap.cohorts(), 2u);
    for (size_t i = 1; i < 8; i++) {
        EXPECT_EQ(heap.cohort(i), heap.cohort(0));
        EXPECT_EQ(heap.cohort(8 + i), heap.cohort(8));
    }
    EXPECT_NE(heap.cohort(0), heap.cohort(8));
}

/* Seen to fail with nothing charged for chance. */
TEST(Lifetime, SitesThatAreAlikeStayTogetherWhateverTheSeed)
{
    for (uint64_t seed = 1; seed <= 50; seed++) {
        Population heap(several(24, 20 * PERIOD), seed);
        EXPECT_EQ(heap.play(60), 0u) << seed;
        ASSERT_EQ(heap.cohorts(), 1u) << seed;
    }
}

TEST(Lifetime, OneSiteWhoseBlocksNeverDieIsSetApart)
{
    Population heap(several(12, 10 * PERIOD) + several(1, never));
    heap.play(20);
    ASSERT_EQ(heap.cohorts(), 2u);
    for (size_t i = 0; i < 12; i++)
        EXPECT_NE(heap.cohort(i), heap.cohort(12));
    EXPECT_EQ(heap.cohort(0), 0u) << "those that hold most keep their cohort";
}

TEST(Lifetime, LifetimesThatAreFarApartHaveACohortEachAndNeverMoreThanTheLimit)
{
    std::vector<Site> sites;
    for (unsigned kind = 0; kind < 12; kind++)
        sites = sites + several(5, PERIOD * std::pow(8, kind) / 64);
    Population heap(sites);
    heap.play(120);
    EXPECT_GE(heap.cohorts(), 3u);
    EXPECT_LE(heap.cohorts(), static_cast<size_t>(LIFETIME_COHORTS_MAX));
}

/* A site that filled the heap, and one that replaces its blocks: no free was seen while it filled,
 * so its blocks seem to live long. Seen to fail with mean lifetimes compared as they are. */
TEST(Lifetime, ATimeInWhichNothingIsFreedIsNoEvidence)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        std::vector<Site> sites = several(1, never) + several(1, never);
        sites[1].starts = 30 * PERIOD;
        Population heap(sites, seed);
        heap.play(30);
        heap.change(0, 5 * PERIOD);
        heap.change(1, 5 * PERIOD);
        EXPECT_EQ(heap.play(60), 0u) << seed;
    }
}

TEST(Lifetime, ASiteWhoseBlocksLiveShorterFromSomeTimeOnComesBackToTheOthers)
{
    Population heap(several(8, 4 * PERIOD) + several(4, never));
    heap.play(30);
    ASSERT_EQ(heap.cohorts(), 2u);
    for (size_t i = 8; i < 12; i++)
        heap.change(i, 4 * PERIOD);
    heap.play(1);
    EXPECT_EQ(heap.cohorts(), 2u) << "not at once";
    heap.play(60);
    EXPECT_EQ(heap.cohorts(), 1u);
}

/* Seen to fail with moves at once. */
TEST(Lifetime, MovesAreWantedTwiceInARowAndThenRare)
{
    Population heap(several(8, 3 * PERIOD) + several(8, 200 * PERIOD), 5);
    size_t first = 0;
    for (unsigned i = 0; i < 30; i++) {
        std::vector<unsigned> wanted, before;
        for (size_t site = 0; site < 16; site++) {
            wanted.push_back(heap.of(site).wanted);
            before.push_back(heap.cohort(site));
        }
        size_t moved = heap.play();
        for (size_t site = 0; site < 16; site++)
            EXPECT_TRUE(heap.cohort(site) == before[site] || heap.cohort(site) == wanted[site]);
        first += moved;
    }
    ASSERT_GE(first, 8u);
    EXPECT_LE(heap.play(200), 4u) << "they flap";
}

TEST(Lifetime, NothingIsCutWhereItSavesLessThanACohortCosts)
{
    std::vector<Site> few = several(8, 3 * PERIOD) + several(8, 300 * PERIOD);
    for (size_t i = 8; i < 16; i++)
        few[i].rate = 0; /* no blocks to keep out of the way */
    Population heap(few);
    heap.play(60);
    EXPECT_EQ(heap.cohorts(), 1u);

    std::vector<Site> apart = several(8, 3 * PERIOD) + several(8, 300 * PERIOD);
    for (size_t i = 8; i < 16; i++)
        apart[i].classes = 7 << 8; /* other sizes never share slabs */
    Population sizes(apart);
    sizes.play(60);
    EXPECT_EQ(sizes.cohorts(), 1u);

    std::vector<Site> pages = several(8, 3 * PERIOD) + several(8, 300 * PERIOD);
    for (size_t i = 8; i < 16; i++)
        pages[i].bytes = 4096; /* leave no page half used */
    Population large(pages);
    large.play(60);
    EXPECT_EQ(large.cohorts(), 1u);
}

/* Like the pinned blocks of bench/workloads/fragmenting.c: many of one small size, beside as many
 * bytes of all sizes. Seen to fail with moves that cost nothing. */
TEST(Lifetime, NothingIsCutWhereFewOfTheSizesAreShared)
{
    std::vector<Site> sites = several(4, 6 * PERIOD) + several(4, never);
    for (size_t i = 0; i < 4; i++)
        sites[i] = {6 * PERIOD, 1190, 0, sites[i].rate, 0};
    for (size_t bytes : {16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096, 8192})
        for (size_t i = 0; i < 4; i++)
            sites[i].classes |= UINT64_C(1) << class_of(bytes);
    for (size_t i = 4; i < 8; i++) {
        sites[i].bytes = 32;
        sites[i].rate *= 200;
        sites[i].classes = UINT64_C(1) << class_of(32);
    }
    Population heap(sites);
    heap.play(60);
    EXPECT_EQ(heap.cohorts(), 1u);
}

TEST(Lifetime, TheSamePopulationHasTheSameTableInEachRun)
{
    std::vector<Site> sites = several(10, 2 * PERIOD) + several(10, 50 * PERIOD) +
                              several(5, never);
    Population first(sites, 9), second(sites, 9);
    for (unsigned i = 0; i < 50; i++) {
        ASSERT_EQ(first.play(), second.play());
        for (size_t site = 0; site < sites.size(); site++) {
            ASSERT_EQ(first.cohort(site), second.cohort(site));
            ASSERT_EQ(first.of(site).log_relative, second.of(site).log_relative);
        }
    }
}

TEST(Lifetime, ASiteOfFewSamplesIsNotJudged)
{
    Population heap(several(8, 3 * PERIOD) + several(8, never));
    heap.play(30);
    ASSERT_EQ(heap.cohorts(), 2u);
    uint16_t order[3];
    std::vector<lifetime_site> seen(3);
    seen[0] = heap.of(0);
    seen[1] = heap.of(8);
    seen[2] = heap.of(8);
    seen[2].samples = LIFETIME_SAMPLES_MIN - 1;
    seen[2].cohort = 0;
    for (unsigned i = 0; i < 5; i++)
        lifetime_decide(seen.data(), 3, order);
    EXPECT_EQ(seen[2].cohort, 0u);
}
