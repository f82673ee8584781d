/*
 * stats_apart_test.cpp: what front/stats.c says of sites, with sites=intern.
 */
#include <gtest/gtest.h>

#include <unistd.h>

#include "../heap_support.h"

static std::string written(int (*write_statistics)(int))
{
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    std::string words(20000, '\0');
    EXPECT_EQ(write_statistics(ends[1]), 0);
    close(ends[1]);
    size_t length = 0;
    while (ssize_t count = read(ends[0], &words[length], words.size() - length))
        length += static_cast<size_t>(std::max<ssize_t>(count, 0));
    close(ends[0]);
    return words.substr(0, length);
}

/* Seen to fail with counts that are left out of either form. */
TEST(StatsApart, TextAndJsonSayHowManySitesThereAreAndHowManyShareACohort)
{
    void *inside = calm_malloc(100); /* a site of this program */
    void *outside = front_alloc(100, reinterpret_cast<void *>(64), nullptr); /* in no module */
    struct calm_stats stats;
    calm_stats_read(&stats);
    EXPECT_GE(stats.interned_sites, 1u);
    EXPECT_EQ(stats.overflow_sites, 1u);
    EXPECT_EQ(stats.retired_sites, 0u);
    EXPECT_EQ(stats.cohorts, stats.interned_sites + 1);
    EXPECT_EQ(stats.owned_bytes, span_owned_bytes());
    EXPECT_GE(stats.owned_bytes, 2u << CHUNK_SHIFT);
    std::string text = written(stats_write_text), json = written(stats_write_json);
    const std::pair<const char *, uint64_t> figures[] = {
        {"interned_sites", stats.interned_sites},
        {"retired_sites", stats.retired_sites},
        {"overflow_sites", stats.overflow_sites},
        {"owned_bytes", stats.owned_bytes},
    };
    for (const auto &[name, value] : figures) {
        std::string number = std::to_string(value);
        EXPECT_NE(text.find(" " + number + "  " + name + "\n"), std::string::npos) << text;
        EXPECT_NE(json.find("\"" + std::string(name) + "\":" + number + ","), std::string::npos);
    }
    EXPECT_NE(text.find("\n  1 sites share one cohort; "), std::string::npos) << text;
    calm_free(inside);
    calm_free(outside);
}
