/*
 * pprof_test.cpp: site/pprof.c, read back by a decoder of protocol buffers of its own.
 */
#include <gtest/gtest.h>

#include <unistd.h>

#include <map>

#include "profile_support.h"

namespace
{

/* One message: numbers and byte strings by field, in their order. Throws on anything malformed. */
struct message {
    std::map<unsigned, std::vector<uint64_t>> numbers;
    std::map<unsigned, std::vector<std::string>> strings;

    explicit message(const std::string &words)
    {
        for (size_t at = 0; at < words.size();) {
            uint64_t key = varint(words, &at);
            unsigned field = static_cast<unsigned>(key >> 3);
            if ((key & 7) == 0) {
                numbers[field].push_back(varint(words, &at));
            } else if ((key & 7) == 2) {
                size_t length = varint(words, &at);
                if (at + length > words.size())
                    throw std::runtime_error("a string goes on behind the end");
                strings[field].push_back(words.substr(at, length));
                at += length;
            } else {
                throw std::runtime_error("a wire type that we never write");
            }
        }
    }
    static uint64_t varint(const std::string &words, size_t *at)
    {
        uint64_t value = 0;
        for (unsigned shift = 0; shift < 70; shift += 7) {
            uint64_t byte = static_cast<unsigned char>(words.at((*at)++));
            value |= (byte & 0x7f) << shift;
            if (byte < 0x80)
                return value;
        }
        throw std::runtime_error("a number without an end");
    }
    uint64_t number(unsigned field) const
    {
        auto found = numbers.find(field);
        return found == numbers.end() ? 0 : found->second.at(0);
    }
};

struct profile {
    message all;
    std::vector<std::string> strings;
    std::map<uint64_t, message> locations; /* by id */

    explicit profile(const std::string &words) : all(words), strings(all.strings[6])
    {
        for (const std::string &location : all.strings[4]) {
            message read(location);
            uint64_t id = read.number(1);
            EXPECT_NE(id, 0u);
            EXPECT_TRUE(locations.emplace(id, read).second) << "id " << id << " comes twice";
        }
    }
    std::string type(unsigned field, size_t index) const
    {
        message read(all.strings.at(field).at(index));
        return strings.at(read.number(1)) + " " + strings.at(read.number(2));
    }
    std::vector<uint64_t> addresses(const std::string &sample) const
    {
        message read(sample);
        std::vector<uint64_t> out;
        const std::string &ids = read.strings.at(1).at(0);
        for (size_t at = 0; at < ids.size();)
            out.push_back(locations.at(message::varint(ids, &at)).number(3));
        return out;
    }
    std::vector<std::string> comments() const
    {
        std::vector<std::string> out;
        for (uint64_t string : all.numbers.at(13))
            out.push_back(strings.at(string));
        return out;
    }
};

profile written(const module_table *modules)
{
    auto locations = std::make_unique<pprof_locations>();
    std::string gzip = calm_test::written(true, [&](profile_out *out) {
        pprof_write(out, &calm_test::source, modules, locations.get());
    });
    std::string trouble;
    std::string words = calm_test::unwrap(gzip, &trouble);
    EXPECT_EQ(trouble, "");
    return profile(words);
}

using numbers = std::vector<uint64_t>;

} // namespace

/* Seen to fail with the number of duration_nanos taken for time_nanos. */
TEST(Pprof, TypesPeriodAndTimesAreThoseOfAGoHeapProfile)
{
    calm_test::begin_profile(524288);
    calm_test::facts.start_ns = 1700000000123456789;
    calm_test::facts.duration_ns = 250000000;
    calm_test::facts.samples = 12;
    calm_test::facts.samples_lost = 3;
    calm_test::facts.samples_cut = 2;
    profile read = written(calm_test::three_modules().get());
    EXPECT_EQ(read.strings.at(0), "");
    ASSERT_EQ(read.all.strings[1].size(), 4u);
    EXPECT_EQ(read.type(1, 0), "alloc_objects count");
    EXPECT_EQ(read.type(1, 1), "alloc_space bytes");
    EXPECT_EQ(read.type(1, 2), "inuse_objects count");
    EXPECT_EQ(read.type(1, 3), "inuse_space bytes");
    ASSERT_EQ(read.all.strings[11].size(), 1u);
    EXPECT_EQ(read.type(11, 0), "space bytes");
    EXPECT_EQ(read.all.numbers[12], numbers{524288});
    EXPECT_EQ(read.all.numbers[9], numbers{1700000000123456789});
    EXPECT_EQ(read.all.numbers[10], numbers{250000000});
    EXPECT_EQ(read.strings.at(read.all.number(14)), "inuse_space");
    ASSERT_EQ(read.comments().size(), 2u);
    EXPECT_NE(read.comments()[0].find("; 12 samples, 3 lost, 2 cut"), std::string::npos);
    EXPECT_EQ(read.comments()[1], "pid " + std::to_string(getpid()));
    EXPECT_TRUE(read.all.strings[2].empty());
}

/* Seen to fail with a mapping's end in place of its offset, and with digits of a build id swapped.
 */
TEST(Pprof, MappingsHaveNumberRangeOffsetPathAndBuildId)
{
    calm_test::begin_profile(1);
    profile read = written(calm_test::three_modules().get());
    ASSERT_EQ(read.all.strings[3].size(), 3u);
    message first(read.all.strings[3][0]), second(read.all.strings[3][1]),
        third(read.all.strings[3][2]);
    EXPECT_EQ(first.number(1), 1u);
    EXPECT_EQ(first.number(2), 0x1000u);
    EXPECT_EQ(first.number(3), 0x3000u);
    EXPECT_EQ(first.number(4), 0x400u);
    EXPECT_EQ(read.strings.at(first.number(5)), "/bin/a program");
    EXPECT_EQ(read.strings.at(first.number(6)), "0ab0ff");
    EXPECT_EQ(second.number(1), 2u);
    EXPECT_EQ(second.number(4), 0x2400u);
    EXPECT_EQ(third.number(1), 3u);
    EXPECT_EQ(read.strings.at(third.number(5)), "/lib/b;c.so");
    EXPECT_EQ(third.number(6), 0u);
}

/* Seen to fail with the mappings in the order of their addresses. */
TEST(Pprof, TheProgramsMappingsComeFirstWhereverTheyLie)
{
    calm_test::begin_profile(1);
    auto modules = calm_test::three_modules();
    modules->modules[1].is_program = true;
    modules->modules[2].is_program = true;
    profile read = written(modules.get());
    numbers ids;
    for (const std::string &mapping : read.all.strings[3])
        ids.push_back(message(mapping).number(1));
    EXPECT_EQ(ids, (numbers{2, 3, 1}));
}

/* Seen to fail with return addresses, with live before all, and with a table that never finds. */
TEST(Pprof, AnAddressHasOneLocationInItsCallAndItsMapping)
{
    calm_test::begin_profile(1);
    calm_test::stacks = {
        {{0x1101, 0x7011, 0x5001}, 1, 10, 2, 20},
        {{0x7011, 0x1101, 0x3000, 0x3001}, 3, 30, 4, 40},
    };
    profile read = written(calm_test::three_modules().get());
    ASSERT_EQ(read.all.strings[2].size(), 2u);
    EXPECT_EQ(read.addresses(read.all.strings[2][0]), (numbers{0x1100, 0x7010, 0x5000}));
    EXPECT_EQ(read.addresses(read.all.strings[2][1]), (numbers{0x7010, 0x1100, 0x2fff, 0x3000}));
    EXPECT_EQ(message(read.all.strings[2][0]).numbers[2], (numbers{2, 20, 1, 10}));
    EXPECT_EQ(message(read.all.strings[2][1]).numbers[2], (numbers{4, 40, 3, 30}));
    const std::map<uint64_t, uint64_t> mapping_of = {
        {0x1100, 1}, {0x7010, 3}, {0x5000, 0}, {0x2fff, 1}, {0x3000, 2}};
    ASSERT_EQ(read.locations.size(), mapping_of.size());
    for (const auto &[id, location] : read.locations)
        EXPECT_EQ(location.number(2), mapping_of.at(location.number(3))) << id;
}

/* Seen to fail with a sample without a location. */
TEST(Pprof, TheStacksWithoutAPlaceOfTheirOwnHaveANameAndNoAddress)
{
    calm_test::begin_profile(1);
    calm_test::stacks = {{{}, 3, 30, 4, 40}, {{0x1101}, 1, 10, 2, 20}};
    profile read = written(calm_test::three_modules().get());
    EXPECT_EQ(read.addresses(read.all.strings[2][0]), numbers{0});
    EXPECT_EQ(message(read.all.strings[2][0]).numbers[2], (numbers{4, 40, 3, 30}));
    ASSERT_EQ(read.all.strings[5].size(), 1u);
    message function(read.all.strings[5][0]);
    EXPECT_EQ(read.strings.at(function.number(2)), "(other stacks)");
    const std::string ids = message(read.all.strings[2][0]).strings[1][0];
    size_t at = 0;
    message location = read.locations.at(message::varint(ids, &at));
    EXPECT_EQ(message(location.strings[4].at(0)).number(1), function.number(1));
    EXPECT_EQ(location.number(2), 0u);
    EXPECT_EQ(read.comments().size(), 2u) << "no location repeats another";
}

/* Seen to fail with the numbers of locations for those of functions: Go's tool numbers its own
 * after as many as there are. */
TEST(Pprof, APlaceInAScriptHasItsFunctionFileAndLineAndNoAddress)
{
    calm_test::script script;
    calm_test::begin_profile(1);
    calm_test::stacks = {{{0x1101, script.word("f", 7), script.word("g", 0)}, 1, 10, 2, 20}};
    profile read = written(calm_test::three_modules().get());
    EXPECT_EQ(read.addresses(read.all.strings[2][0]), (numbers{0x1100, 0, 0}));
    ASSERT_EQ(read.all.strings[5].size(), 2u);
    const std::string ids = message(read.all.strings[2][0]).strings[1][0];
    size_t at = 0;
    message::varint(ids, &at);
    for (unsigned i = 0; i < 2; i++) {
        message location = read.locations.at(message::varint(ids, &at));
        message line(location.strings[4].at(0)), function(read.all.strings[5][i]);
        EXPECT_EQ(line.number(1), i + 1);
        EXPECT_EQ(function.number(1), i + 1);
        EXPECT_EQ(line.number(2), i == 0 ? 7u : 0u);
        EXPECT_EQ(read.strings.at(function.number(2)), i == 0 ? "f" : "g");
        EXPECT_EQ(read.strings.at(function.number(4)), "script.py");
        EXPECT_EQ(location.number(2), 0u);
    }
}

TEST(Pprof, TheDeepestStackAndTheLargestNumbersAreWritten)
{
    calm_test::begin_profile(1);
    std::vector<uintptr_t> callers, expected;
    for (uintptr_t i = 0; i < PROFILE_DEPTH_MAX; i++) {
        callers.push_back((UINTPTR_MAX >> 1) - i); /* above it are places in scripts */
        expected.push_back((UINTPTR_MAX >> 1) - i - 1);
    }
    callers.push_back(0x1101); /* deeper than any stack is */
    calm_test::stacks = {{callers, UINT64_MAX, UINT64_MAX, 1, INT64_MAX},
                         {{0, 1}, 1, 1, 1, 1}}; /* nothing that could be a call */
    profile read = written(calm_test::three_modules().get());
    ASSERT_EQ(read.all.strings[2].size(), 2u);
    EXPECT_EQ(read.addresses(read.all.strings[2][0]), expected);
    EXPECT_EQ(message(read.all.strings[2][0]).numbers[2],
              (numbers{1, INT64_MAX, INT64_MAX, INT64_MAX}));
    EXPECT_EQ(read.addresses(read.all.strings[2][1]), numbers{});
}

/* Seen to fail with a full table that gives every new address the number of slot 0, and without the
 * comment. */
TEST(Pprof, AFullTableOfLocationsLosesNothingAndIsSaid)
{
    const size_t more = 1000, depth = 50;
    calm_test::begin_profile(1);
    std::vector<uintptr_t> callers;
    for (uintptr_t i = 0; i < PPROF_LOCATIONS_MAX + more; i++) {
        callers.push_back(0x10000 + i * 16);
        if (callers.size() == depth) {
            calm_test::stacks.push_back({callers, 1, 1, 1, 1});
            callers.clear();
        }
    }
    calm_test::stacks.push_back(calm_test::stacks.front());
    calm_test::stacks.push_back(calm_test::stacks[calm_test::stacks.size() - 2]);
    profile read = written(calm_test::three_modules().get());
    ASSERT_EQ(read.all.strings[2].size(), calm_test::stacks.size());
    for (size_t i = 0; i < calm_test::stacks.size(); i++) {
        numbers expected;
        for (uintptr_t caller : calm_test::stacks[i].callers)
            expected.push_back(caller - 1);
        ASSERT_EQ(read.addresses(read.all.strings[2][i]), expected) << i;
    }
    size_t written_count = (calm_test::stacks.size() - 1) * depth;
    EXPECT_EQ(read.locations.size(), written_count);
    ASSERT_EQ(read.comments().size(), 3u);
    EXPECT_EQ(read.comments()[2], std::to_string(written_count - PPROF_LOCATIONS_MAX) +
                                      " locations repeat others: the table of " +
                                      std::to_string(PPROF_LOCATIONS_MAX) + " is full");
}

TEST(Pprof, ModulesThatAreMissingAreSaid)
{
    calm_test::begin_profile(1);
    auto modules = calm_test::three_modules();
    modules->left_out = 5;
    profile full = written(modules.get());
    ASSERT_EQ(full.comments().size(), 3u);
    EXPECT_EQ(full.comments()[2], "5 mappings left out: the table of 3 is full");
    modules = std::make_unique<module_table>();
    modules->error = -13;
    profile without = written(modules.get());
    ASSERT_EQ(without.comments().size(), 3u);
    EXPECT_EQ(without.comments()[2], "no mappings: reading them failed with error 13");
}
