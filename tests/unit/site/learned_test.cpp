/*
 * learned_test.cpp: site/learned.c with a heap below it: made-up sites, of which some keep their
 * blocks. The policy begins once in a process, so each test has one of its own.
 */
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <deque>
#include <string>
#include <vector>

#include "../heap_support.h"

enum { KINDS = 4, SHORT_FIRST = 0x100, LONG_FIRST = 0x900, STEPS = 400000, LIVE = 60000 };

/* Made-up sites are counted, not addressed: on aarch64 an instruction is four bytes. */
static const void *site_at(uintptr_t number)
{
    return reinterpret_cast<const void *>(number << CODE_ALIGN_LOG2);
}

/* Runs `body` in a child; what it returns is empty if all is well. */
template <class Body> static void in_child(Body body)
{
    int pipe_ends[2];
    ASSERT_EQ(pipe(pipe_ends), 0);
    pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        std::string trouble = body();
        ssize_t written = write(pipe_ends[1], trouble.data(), trouble.size());
        _exit(written == static_cast<ssize_t>(trouble.size()) ? 0 : 1);
    }
    close(pipe_ends[1]);
    std::string trouble;
    char buffer[512];
    for (ssize_t got; (got = read(pipe_ends[0], buffer, sizeof buffer)) > 0;)
        trouble.append(buffer, static_cast<size_t>(got));
    close(pipe_ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    EXPECT_EQ(trouble, "");
}

static void begin(uint64_t seed)
{
    heap_start();
    learned_choose(seed);
    site_start(SITE_LEARNED, 1);
    depot_on_growth(100000);
}

/* LIVE blocks of four sites that are replaced at random, and among them those that four other sites
 * keep. */
static void work(uint64_t seed)
{
    static const size_t sizes[] = {32, 96, 256, 1024};
    calm_test::Random random(seed);
    std::vector<void *> blocks(LIVE, nullptr);
    for (unsigned i = 0; i < STEPS; i++) {
        size_t at = random.next() % LIVE, bytes = sizes[random.next() % 4];
        heap_free(blocks[at]);
        blocks[at] = front_alloc(bytes, site_at(SHORT_FIRST + 64 * (random.next() % KINDS)),
                                 nullptr);
        if (i % 50 == 0)
            front_alloc(bytes, site_at(LONG_FIRST + 64 * (random.next() % KINDS)), nullptr);
    }
}

/* Seen to fail with deaths that were not counted. */
TEST(Learned, SitesThatKeepTheirBlocksGetACohortOfTheirOwn)
{
    in_child([]() -> std::string {
        begin(1);
        work(3);
        size_t others = site_cohort_of(SHORT_FIRST), kept = site_cohort_of(LONG_FIRST);
        if (others == kept)
            return "one cohort for both";
        for (size_t i = 0; i < KINDS; i++)
            if (site_cohort_of(SHORT_FIRST + 64 * i) != others ||
                site_cohort_of(LONG_FIRST + 64 * i) != kept)
                return "a site is with the wrong ones";
        if (site_cohorts() != 2)
            return "cohorts: " + std::to_string(site_cohorts());
        const char *found = heap_verify();
        return found == nullptr ? "" : found;
    });
}

/* The statistics have it, as text and in JSON. */
TEST(Learned, WhatItFoundIsReported)
{
    in_child([]() -> std::string {
        std::vector<char> room(16384);
        struct text text = text_begin(room.data(), room.size());
        learned_report_text(&text);
        learned_report_json(&text);
        if (text.length != 0)
            return "a report before it began";
        begin(1);
        work(3);
        learned_report_json(&text);
        std::string json(text.start, text.length);
        int depth = 0, deepest = 0;
        for (char c : json) {
            depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
            deepest = std::max(deepest, depth);
        }
        if (depth != 0 || deepest != 3 || json.find("\"learned\":{\"clock_kib\":") != 0 ||
            json.find("\"log\":[{\"at_kib\":") == std::string::npos || json.back() != ',')
            return json;
        text = text_begin(room.data(), room.size());
        learned_report_text(&text);
        std::string words(text.start, text.length);
        return words.find("sites that moved") != std::string::npos &&
                       words.find("2  learned_cohorts\n") != std::string::npos
                   ? ""
                   : words;
    });
}

static std::string log_of(uint64_t seed)
{
    begin(seed);
    work(3);
    struct learned_move moves[LEARNED_LOG_MAX];
    size_t count = learned_log(moves);
    std::string log = std::to_string(learned_facts().samples);
    for (size_t i = 0; i < count; i++)
        log += " " + std::to_string(moves[i].at_kib) + ":" + std::to_string(moves[i].index) + ">" +
               std::to_string(moves[i].to) + ":" + std::to_string(moves[i].lifetime_kib);
    return log;
}

static std::string log_in_child(uint64_t seed)
{
    int ends[2];
    if (pipe(ends) != 0)
        return "no pipe";
    pid_t child = fork();
    if (child == 0) {
        store(&purge_settings.purges_on_free, false, RELAXED); /* no second thread */
        std::string log = log_of(seed);
        ssize_t written = write(ends[1], log.data(), log.size());
        _exit(written < 0);
    }
    close(ends[1]);
    std::string log;
    char buffer[512];
    for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) > 0;)
        log.append(buffer, static_cast<size_t>(got));
    close(ends[0]);
    waitpid(child, nullptr, 0);
    return log;
}

TEST(Learned, OneThreadWithTheSameSeedLearnsTheSame)
{
    std::string first = log_in_child(5);
    EXPECT_NE(first.find('>'), std::string::npos) << first;
    EXPECT_EQ(first, log_in_child(5));
    EXPECT_NE(first, log_in_child(6));
}

TEST(Learned, ASmallHeapIsNotWatched)
{
    in_child([]() -> std::string {
        heap_start();
        learned_choose(1);
        site_start(SITE_LEARNED, 1);
        depot_on_growth(20);
        for (size_t index = 0; index < SITES; index++)
            if (learned_watches(index) || site_offset(site_at(index)) == DIVERTED_OFFSET)
                return "watched";
        return learned_facts().is_on || learned_mapped_bytes() != 0 ? "on" : "";
    });
}

/* A site that asks without end is left alone soon, and as long as nothing passes through caches. */
TEST(Learned, WatchingEnds)
{
    in_child([]() -> std::string {
        begin(1);
        for (unsigned i = 0; i < 1000; i++)
            heap_free(front_alloc(48, site_at(SHORT_FIRST), nullptr));
        if (site_offset(site_at(SHORT_FIRST)) == DIVERTED_OFFSET)
            return "still watched";
        uint64_t samples = learned_facts().samples;
        for (unsigned i = 0; i < 100000; i++)
            heap_free(front_alloc(48, site_at(SHORT_FIRST), nullptr));
        return learned_facts().samples == samples && samples > 4 ? "" : std::to_string(samples);
    });
}

static void add_live(const struct profile_stack *stack, void *context)
{
    *static_cast<uint64_t *>(context) += stack->live_blocks;
}

/* Each keeps its own book of the same frees. */
TEST(Learned, TheProfilerSeesTheSameBesideIt)
{
    in_child([]() -> std::string {
        begin(1);
        if (sample_start(1, 1) != SAMPLE_FINE) /* every request */
            return "the profiler does not start";
        std::deque<void *> live;
        for (unsigned i = 0; i < 20000; i++) {
            live.push_back(front_alloc(64, site_at(SHORT_FIRST + i % 512), nullptr));
            if (live.size() > 1000) {
                heap_free(live.front());
                live.pop_front();
            }
        }
        uint64_t blocks = 0;
        profile_visit(add_live, &blocks);
        if (blocks != 1000)
            return "live: " + std::to_string(blocks);
        if (learned_facts().samples == 0)
            return "nothing was learned";
        for (void *block : live)
            heap_free(block);
        blocks = 0;
        profile_visit(add_live, &blocks);
        sample_stop();
        return blocks == 0 ? "" : "live at the end: " + std::to_string(blocks);
    });
}

/* realloc ends what it frees; a block that moved is followed where it is now. */
TEST(Learned, ReallocKeepsContentsAndBooks)
{
    in_child([]() -> std::string {
        begin(1);
        for (unsigned round = 0; round < 3000; round++) {
            const void *site = site_at(SHORT_FIRST + round % 1024);
            char *block = static_cast<char *>(front_realloc(nullptr, 40, site, nullptr));
            for (unsigned i = 0; i < 40; i++)
                block[i] = static_cast<char>(i + round);
            for (size_t bytes = 80; bytes <= 40960; bytes *= 2) {
                block = static_cast<char *>(front_realloc(block, bytes, site, nullptr));
                for (unsigned i = 0; i < 40; i++)
                    if (block[i] != static_cast<char>(i + round))
                        return "contents";
            }
            heap_free(block);
        }
        const char *found = heap_verify();
        return found == nullptr ? "" : found;
    });
}
