/*
 * cgroup_test.cpp: os/linux/cgroup.h: the least limit along the path of a group, in trees of files
 * as kernels have them.
 */
#include "folder_support.h"

#include "../support.h"

extern "C" {
#include "os/linux/cgroup.h"
}

namespace
{

constexpr size_t mib = 1024 * 1024;

class Cgroup : public FolderTest
{
  protected:
    /* A file of the file system of groups. */
    void write(const std::string &name, const std::string &words)
    {
        std::filesystem::path path = folder_ + "/fs/" + name;
        std::filesystem::create_directories(path.parent_path());
        std::ofstream(path) << words << "\n";
    }

    /* With these lines in /proc/self/cgroup. */
    struct os_limits read(const std::string &groups, enum os_limits_use use = OS_LIMITS_START)
    {
        struct os_limits limits = {1, 1, 1};
        std::ofstream(folder_ + "/groups") << groups;
        is_known_ = cgroup_read((folder_ + "/groups").c_str(), (folder_ + "/fs").c_str(), use,
                                &limits);
        return limits;
    }

    void expect_none(const std::string &groups)
    {
        struct os_limits limits = read(groups);
        EXPECT_EQ(limits.memory_max, SIZE_MAX) << groups;
        EXPECT_EQ(limits.memory_high, SIZE_MAX) << groups;
        EXPECT_EQ(limits.cpus, UINT32_MAX) << groups;
    }

    bool is_known_ = false;
};

std::string bytes(size_t count)
{
    return std::to_string(count);
}

} // namespace

/* Seen to fail with the innermost group alone, and with the outermost. */
TEST_F(Cgroup, TheLeastAlongThePathHolds)
{
    write("a/memory.max", bytes(300 * mib));
    write("a/memory.high", "max");
    write("a/cpu.max", "150000 100000");
    write("a/b/memory.max", bytes(100 * mib));
    write("a/b/memory.high", bytes(90 * mib));
    write("a/b/cpu.max", "max 100000");
    write("a/b/c/memory.max", "max");
    write("a/b/c/memory.high", bytes(200 * mib));
    write("a/b/c/cpu.max", "400000 100000");
    struct os_limits limits = read("0::/a/b/c\n");
    EXPECT_TRUE(is_known_);
    EXPECT_EQ(limits.memory_max, 100 * mib);
    EXPECT_EQ(limits.memory_high, 90 * mib);
    EXPECT_EQ(limits.cpus, 2u);
    EXPECT_EQ(read("0::/a\n").memory_max, 300 * mib);
}

/* Seen to fail with the mount's place left out. */
TEST_F(Cgroup, AContainerSeesItsOwnGroupAtTheMountsPlace)
{
    write("memory.max", bytes(64 * mib));
    write("memory.high", "max");
    write("cpu.max", "50000 100000");
    for (const char *groups : {"0::/\n", "0::/docker/0123456789abcdef\n", "0::/../other\n"}) {
        struct os_limits limits = read(groups);
        EXPECT_EQ(limits.memory_max, 64 * mib) << groups;
        EXPECT_EQ(limits.memory_high, SIZE_MAX) << groups;
        EXPECT_EQ(limits.cpus, 1u) << groups;
    }
}

/* Seen to fail with quotas that are rounded down. */
TEST_F(Cgroup, VersionOneHasAFolderForEachController)
{
    write("memory/x/memory.limit_in_bytes", "9223372036854771712");
    write("memory/x/memory.soft_limit_in_bytes", bytes(40 * mib));
    write("memory/x/y/memory.limit_in_bytes", bytes(50 * mib));
    write("memory/x/y/memory.soft_limit_in_bytes", "9223372036854771712");
    write("cpu/z/cpu.cfs_quota_us", "250000");
    write("cpu/z/cpu.cfs_period_us", "100000");
    write("cpu/cpu.cfs_quota_us", "-1");
    write("cpu/cpu.cfs_period_us", "100000");
    write("cpuacct/q/cpu.cfs_quota_us", "10");
    write("cpuacct/q/cpu.cfs_period_us", "10");
    const char *groups = "9:name=systemd:/memory\n4:memory:/x/y\n3:cpuset:/q\n"
                         "2:cpuacct:/q\n1:cpuacct,cpu:/z\n0::/\n";
    struct os_limits start = read(groups), later = read(groups, OS_LIMITS_MEMORY);
    EXPECT_TRUE(is_known_);
    EXPECT_EQ(start.memory_max, 50 * mib);
    EXPECT_EQ(later.memory_max, 50 * mib);
    EXPECT_EQ(later.memory_high, 40 * mib);
    EXPECT_EQ(start.cpus, 3u);
}

TEST_F(Cgroup, WhereNothingIsSaidNothingIsLimited)
{
    expect_none("");
    expect_none("0::/\n");
    EXPECT_FALSE(is_known_) << "no file said anything";
    write("a/memory.max", "max");
    write("a/memory.high", "max");
    write("a/cpu.max", "max 100000");
    expect_none("0::/a\n");
    EXPECT_TRUE(is_known_);
    struct os_limits limits;
    EXPECT_FALSE(cgroup_read("/no/such/file", folder_.c_str(), OS_LIMITS_START, &limits));
    EXPECT_EQ(limits.memory_max, SIZE_MAX);
}

/* Seen to fail without the look what stands behind a number. */
TEST_F(Cgroup, WhatMakesNoSenseIsNoLimit)
{
    for (const char *words :
         {"", "-5", "x", "12x", "0x10", " 7", "99999999999999999999", "max 5"}) {
        write("a/memory.max", words);
        write("a/memory.high", words);
        write("a/cpu.max", words);
        expect_none("0::/a\n");
    }
    for (const char *words : {"100", "100 ", "100 0", "0 100", "100 x", "100 -1", "5,5", "9e9 1"}) {
        write("b/cpu.max", words);
        expect_none("0::/b\n");
    }
    for (const char *groups : {"\n", ":\n", "0:\n", "0::\n", "::::\n", "4:memory\n", "4:memory:\n",
                               "memory:4:/a\n", "0::a\n", "\n\n0:memory"}) {
        std::string before = folder_;
        folder_ += "/empty";
        std::filesystem::create_directories(folder_);
        expect_none(groups);
        folder_ = before;
    }
}

/* A file that is there and cannot be read says nothing about what is in force. */
TEST_F(Cgroup, WhereAFileCannotBeReadNothingIsKnown)
{
    write("a/memory.max", bytes(10 * mib));
    write("memory.max", bytes(20 * mib));
    std::filesystem::create_directories(folder_ + "/fs/a/memory.high");
    expect_none("0::/a\n");
    EXPECT_FALSE(is_known_);
}

TEST_F(Cgroup, LongPathsAndManyLevelsEndAtTheMount)
{
    write("memory.max", bytes(64 * mib));
    write("a/memory.max", bytes(32 * mib));
    std::string deep;
    for (unsigned i = 0; i < 20; i++)
        deep += "/x";
    EXPECT_EQ(read("0::" + deep + "\n").memory_max, 64 * mib);
    EXPECT_EQ(read("0::/a" + deep + "\n").memory_max, 32 * mib);
    for (size_t length : {400u, 480u, 500u, 511u, 512u, 700u, 3000u})
        EXPECT_EQ(read("0::/a/" + std::string(length, 'x') + "\n").memory_max, 32 * mib) << length;
    EXPECT_EQ(read("0::/a//\n").memory_max, 32 * mib);
}

/* Whatever this machine is. */
TEST_F(Cgroup, ThisProcessHasLimitsThatAllowIt)
{
    struct os_limits limits;
    os_limits_read(&limits, OS_LIMITS_START);
    EXPECT_GT(limits.memory_max, mib);
    EXPECT_GT(limits.memory_high, mib);
    EXPECT_GE(limits.cpus, 1u);
}
