/*
 * topology_test.cpp: os/linux/topology.h: groups as the kernel's files have them, and one group
 * where they make no sense.
 */
#include "folder_support.h"

#include "../support.h"

extern "C" {
#include "os/linux/topology.h"
}

namespace
{

constexpr unsigned cpus = 256;

/* A tree of files like /sys/devices/system/cpu. */
class Topology : public FolderTest
{
  protected:
    void SetUp() override
    {
        FolderTest::SetUp();
        use(0, cpus - 1);
    }

    void write(unsigned cpu, unsigned cache, const std::string &list)
    {
        std::string folder = folder_ + "/cpu" + std::to_string(cpu) + "/cache/index" +
                             std::to_string(cache);
        std::filesystem::create_directories(folder);
        std::ofstream(folder + "/shared_cpu_list") << list << "\n";
    }

    /* Each of the CPUs has a cache of its own, and the list for its last. */
    void write_all(unsigned first, unsigned last, const std::string &list)
    {
        for (unsigned cpu = first; cpu <= last; cpu++) {
            write(cpu, 0, std::to_string(cpu));
            write(cpu, 1, list);
        }
    }

    void use(unsigned first, unsigned last)
    {
        for (unsigned cpu = 0; cpu < cpus; cpu++)
            usable_[cpu / 64] = (usable_[cpu / 64] & ~(1ull << cpu % 64)) |
                                static_cast<uint64_t>(cpu >= first && cpu <= last) << cpu % 64;
    }

    unsigned read()
    {
        std::fill(groups_, groups_ + cpus, 99);
        return topology_read(folder_.c_str(), usable_, groups_, cpus);
    }

    void expect_one_group()
    {
        EXPECT_EQ(read(), 1u);
        for (unsigned cpu = 0; cpu < cpus; cpu++)
            ASSERT_EQ(groups_[cpu], 0) << cpu;
    }

    uint64_t usable_[cpus / 64] = {};
    uint8_t groups_[cpus] = {};
};

} // namespace

/* Seen to fail with the first cache in place of the last. */
TEST_F(Topology, ChipletsWithTwoThreadsACore)
{
    use(0, 31);
    for (unsigned chiplet = 0; chiplet < 2; chiplet++) {
        unsigned first = 8 * chiplet;
        std::string list = std::to_string(first) + "-" + std::to_string(first + 7) + "," +
                           std::to_string(first + 16) + "-" + std::to_string(first + 23);
        write_all(first, first + 7, list);
        write_all(first + 16, first + 23, list);
    }
    EXPECT_EQ(read(), 2u);
    for (unsigned cpu = 0; cpu < 32; cpu++)
        EXPECT_EQ(groups_[cpu], cpu / 8 % 2) << cpu;
    EXPECT_EQ(groups_[32], 0);
}

TEST_F(Topology, OneCacheForAll)
{
    use(0, 15);
    write_all(0, 15, "0-15");
    expect_one_group();
}

TEST_F(Topology, CpusThatThisProcessMayNotUseMakeNoGroups)
{
    for (unsigned first = 0; first < 64; first += 8)
        write_all(first, first + 7, std::to_string(first) + "-" + std::to_string(first + 7));
    use(20, 27);
    EXPECT_EQ(read(), 2u);
    for (unsigned cpu = 16; cpu < 32; cpu++)
        EXPECT_EQ(groups_[cpu], cpu < 24 ? 0 : 1) << cpu;
}

TEST_F(Topology, ASingleCpuAGroupAndNumbersAloneInLists)
{
    use(0, 3);
    write_all(0, 0, "0,2");
    write_all(1, 1, "1");
    write_all(2, 2, "0,2");
    write_all(3, 3, "3");
    EXPECT_EQ(read(), 3u);
    EXPECT_EQ(groups_[0], 0);
    EXPECT_EQ(groups_[1], 1);
    EXPECT_EQ(groups_[2], 0);
    EXPECT_EQ(groups_[3], 2);
}

TEST_F(Topology, NoFilesAreOneGroup)
{
    expect_one_group();
    write(0, 0, "0");
    expect_one_group(); /* the other CPUs' are missing */
}

/* Seen to fail for lists that overlap, without the look whether a CPU is in a group already. */
TEST_F(Topology, WhatMakesNoSenseIsOneGroup)
{
    use(0, 1);
    for (const char *list :
         {"", ",", "-", "1-", "0,,1", "x", "0-1x", "0x", "5", "0-", "1-0", "0;1", " 0"}) {
        write_all(0, 0, list);
        write_all(1, 1, "1");
        expect_one_group();
    }
    write_all(0, 0, "0");
    write_all(1, 1, "0-1");
    expect_one_group();
}

TEST_F(Topology, CpusBeyondTheMapAreLeftOut)
{
    use(0, 7);
    write_all(0, 3, "0-3,1000-70000");
    write_all(4, 7, "4-7,18446744073709551600-18446744073709551615");
    EXPECT_EQ(read(), 2u);
    EXPECT_EQ(groups_[7], 1);
}

TEST_F(Topology, MoreGroupsThanAByteCountsAreOne)
{
    for (unsigned cpu = 0; cpu < cpus; cpu++)
        write(cpu, 0, std::to_string(cpu));
    expect_one_group();
}

TEST_F(Topology, ALongPathIsOneGroup)
{
    std::string root = folder_;
    folder_ += std::string(300, 'x');
    expect_one_group();
    folder_ = root;
}

/* Whatever this machine is, each usable CPU's group exists. */
TEST_F(Topology, ThisMachinesGroupsAreNumbered)
{
    std::fill(groups_, groups_ + cpus, 99);
    unsigned count = os_cache_groups(groups_, cpus);
    EXPECT_GE(count, 1u);
    for (unsigned cpu = 0; cpu < cpus; cpu++)
        EXPECT_LT(groups_[cpu], count);
    EXPECT_LT(os_cpu(), 65536u);
}
