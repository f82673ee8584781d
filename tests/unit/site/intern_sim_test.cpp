/*
 * intern_sim_test.cpp: site/intern.c, with modules that the test loads and unloads.
 */
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>

#include "../heap_support.h"
extern "C" {
#include "os/sim/sim.h"
}

enum { PROGRAM, PLUGIN, LINKER };
static const uintptr_t program = 0x400000, plugin = 0x7000000000, linker = 0x7100000000,
                       module_bytes = 0x1000000;

class Intern : public testing::Test
{
  protected:
    void SetUp() override
    {
        if (intern_counts().sites != 0)
            GTEST_SKIP() << "sites of another test are there: ctest gives each its own process";
        sim_load(PROGRAM, program, program + module_bytes, false);
        sim_load(LINKER, linker, linker + module_bytes, true);
    }
};

static unsigned row(uintptr_t site)
{
    uint32_t offset = intern_offset(reinterpret_cast<const void *>(site));
    EXPECT_EQ(offset % COHORT_ENTRY_BYTES, 0u);
    return offset / COHORT_ENTRY_BYTES;
}

static unsigned overflow_row()
{
    return row(0x10000);
}

/* Seen to fail with row_take() that does not count on. */
TEST_F(Intern, AThousandSitesHaveACohortEachAndTheRestShareOne)
{
    std::map<unsigned, uintptr_t> sites;
    std::vector<std::pair<uintptr_t, unsigned>> all;
    calm_test::Random random(3);
    for (unsigned i = 0; i < 1000; i++) {
        uintptr_t site = program + random.below(module_bytes / 16) * 16 + i % 16;
        all.emplace_back(site, row(site));
        uintptr_t other = sites.emplace(row(site), site).first->second;
        ASSERT_EQ(other, site) << "two sites have row " << row(site);
        ASSERT_LT(row(site), static_cast<unsigned>(ROW_LIMIT));
        ASSERT_NE(row(site), static_cast<unsigned>(COHORT_SAMPLED));
        ASSERT_NE(row(site), static_cast<unsigned>(COHORT_DIVERTED));
    }
    while (intern_counts().sites < INTERN_SITES_MAX) /* some were drawn twice */
        row(program + random.below(module_bytes));
    EXPECT_EQ(intern_counts().overflow, 0u);
    std::set<uintptr_t> more;
    while (more.size() < 20000)
        more.insert(program + module_bytes / 2 + random.below(module_bytes / 4) * 2 + 1);
    for (uintptr_t site : more) {
        uint64_t before = intern_counts().overflow;
        ASSERT_TRUE(row(site) == overflow_row() || sites.count(row(site)) == 1);
        ASSERT_LE(intern_counts().overflow, before + 2);
    }
    EXPECT_EQ(intern_counts().sites, static_cast<uint64_t>(INTERN_SITES_MAX));
    EXPECT_GE(intern_counts().overflow, 19000u);
    for (const auto &[site, first_row] : all)
        ASSERT_EQ(row(site), first_row) << "for good";
}

TEST_F(Intern, CodeThatIsInNoModuleSharesTheOverflowCohort)
{
    unsigned own = row(program + 5);
    EXPECT_NE(row(0x5000000), own);
    EXPECT_EQ(row(0x5000000), row(0x6000000));
    EXPECT_EQ(row(static_cast<uintptr_t>(1) << 50), row(0x6000000)) << "more bits than a word has";
    EXPECT_EQ(intern_counts().sites, 1u);
}

TEST_F(Intern, EachTagHasARowOfItsOwn)
{
    auto tagged = [](uint64_t bits) { return row(bits | static_cast<uintptr_t>(1) << 63); };
    unsigned one = tagged(7), other = tagged(7 | static_cast<uintptr_t>(1) << 50);
    EXPECT_NE(one, other) << "they differ in a bit that words have no room for";
    EXPECT_NE(one, row(program + 7));
    EXPECT_EQ(tagged(7), one);
    EXPECT_EQ(tagged(7 | static_cast<uintptr_t>(1) << 50), other);
    EXPECT_EQ(intern_counts().sites, 3u);
}

/* Seen to fail without retire(), and with the linker's sites in the table that hits look at. */
TEST_F(Intern, SitesOfAnUnloadedModuleAreRetiredBeforeTheLinkerCanLoadAnother)
{
    std::map<uintptr_t, unsigned> before;
    unsigned stays = row(program + 0x123), linkers = row(linker + 0x77);
    for (unsigned turn = 0; turn < 5; turn++) {
        sim_load(PLUGIN, plugin, plugin + module_bytes, false);
        for (uintptr_t site = plugin; site < plugin + 40; site++) {
            ASSERT_NE(row(site), before[site]) << "another module's, of turn " << turn;
            before[site] = row(site);
        }
        sim_load(PLUGIN, 0, 0, false);
        EXPECT_EQ(intern_counts().retired, turn * 40u);
        EXPECT_EQ(row(linker + 0x77), linkers) << "the linker asks for memory to load the next";
        EXPECT_EQ(intern_counts().retired, (turn + 1) * 40u);
    }
    EXPECT_EQ(row(program + 0x123), stays);
    EXPECT_EQ(intern_counts().sites, 2 + 5 * 40u);
    EXPECT_EQ(intern_counts().overflow, 0u);
}

static uint32_t told(uintptr_t site)
{
    return intern_look(&intern_known, reinterpret_cast<const void *>(site));
}

/* Seen to fail with claim() that takes a place which another site has. */
TEST_F(Intern, SitesThatShareAPlaceAreToldApartByTheWholeAddress)
{
    enum { SHARE = 5 };
    std::set<unsigned> rows;
    unsigned in_table = 0;
    for (unsigned i = 0; i < SHARE; i++) {
        uintptr_t site = program + 0x777 + i * static_cast<uintptr_t>(SITES) * 4;
        EXPECT_EQ(told(site), 0u) << "it was not met yet";
        unsigned own = row(site);
        rows.insert(own);
        in_table += told(site) != 0;
        EXPECT_TRUE(told(site) == 0 || told(site) == own * COHORT_ENTRY_BYTES);
    }
    EXPECT_EQ(rows.size(), static_cast<size_t>(SHARE));
    EXPECT_EQ(in_table, 2u) << "as many places has an address";
}

/* Seen to fail with retire_at() that leaves the table as it is. */
TEST_F(Intern, ARetiredSiteIsNotInTheTable)
{
    uintptr_t site = program + 0x999;
    const void *address = reinterpret_cast<const void *>(site);
    unsigned first = row(site);
    EXPECT_NE(told(site), 0u);
    intern_retire(address);
    EXPECT_EQ(told(site), 0u);
    unsigned second = row(site);
    EXPECT_NE(second, first);
    EXPECT_EQ(told(site), second * COHORT_ENTRY_BYTES) << "at its other place";
    intern_retire(address);
    unsigned third = row(site);
    EXPECT_EQ(told(site), 0u) << "it has had both places";
    EXPECT_EQ(row(site), third);
    EXPECT_EQ(intern_counts().retired, 2u);
    for (size_t place : {intern_place(address), intern_other_place(intern_place(address))})
        EXPECT_EQ(intern_known.sites[place], UINTPTR_MAX);
}

/* Seen to fail with retire_at() that claims no place. */
TEST_F(Intern, ASiteThatIsRetiredBeforeItWasToldIsNotToldByWhoComesLate)
{
    uintptr_t site = program + 0xABC;
    const void *address = reinterpret_cast<const void *>(site);
    size_t place = intern_place(address);
    row(site);
    ASSERT_EQ(intern_known.sites[place], site);
    intern_known.sites[place] = 0; /* as before I5 */
    intern_retire(address);
    for (size_t its : {place, intern_other_place(place)})
        EXPECT_EQ(intern_known.sites[its], UINTPTR_MAX);
}

TEST_F(Intern, NothingIsKnownWhereRequestsLookUnlessThatIsAllowed)
{
    const void *site = reinterpret_cast<const void *>(program + 0x55);
    row(program + 0x55);
    intern_allow_quick(false);
    EXPECT_EQ(intern_look(intern_quick, site), 0u);
    intern_allow_quick(true);
    EXPECT_NE(intern_look(intern_quick, site), 0u);
    intern_allow_quick(false);
}

static unsigned row_of_the_faster;

/* Seen to fail with enter() that returns its own row where another thread was faster. */
TEST_F(Intern, WhoeverIsSlowerTakesTheRowThatTheFasterEnteredAndTheOtherRowIsNotLost)
{
    sim_when_asked([](const void *site) { row_of_the_faster = intern_offset(site); });
    unsigned met = row(program + 0x400); /* between its look-up and its entry another enters it */
    EXPECT_NE(row_of_the_faster, 0u);
    EXPECT_EQ(met * COHORT_ENTRY_BYTES, row_of_the_faster);
    EXPECT_EQ(row(program + 0x400), met);
    EXPECT_EQ(intern_counts().sites, 1u);
    std::set<unsigned> rows;
    for (uintptr_t site = program; site < program + INTERN_SITES_MAX * 8; site += 8)
        rows.insert(row(site));
    EXPECT_EQ(rows.size(), static_cast<size_t>(INTERN_SITES_MAX));
    EXPECT_EQ(intern_counts().overflow, 0u);
}

TEST_F(Intern, ThreadsThatMeetASiteFirstAtTheSameTimeAgree)
{
    enum { THREADS = 2, MET = 900 };
    static std::atomic<unsigned> arrived[MET];
    std::vector<std::array<unsigned, MET>> rows(THREADS);
    std::vector<std::thread> threads;
    for (auto &mine : rows)
        threads.emplace_back([&mine] {
            for (unsigned i = 0; i < MET; i++) {
                arrived[i]++;
                while (arrived[i] < THREADS)
                    std::this_thread::yield();
                mine[i] = row(program + i * 4096 + i % 7); /* long ways to probe, too */
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    std::set<unsigned> different(rows[0].begin(), rows[0].end());
    EXPECT_EQ(different.size(), rows[0].size());
    EXPECT_EQ(rows[1], rows[0]);
    EXPECT_EQ(intern_counts().sites, rows[0].size());
}
