/*
 * cold_data SEED COLD_KIB HOT ROUNDS: COLD_KIB of blocks that nobody touches for ROUNDS quarters of
 * a second, made among HOT blocks that are replaced, each twenty times, at the start of each. Then
 * the library is asked to give back what it can, and at the end every cold block is read again.
 *
 * Measures whether a library can get cold memory out of the way when asked, and what that costs the
 * program later: `resident_asked_kib`, and `wake_seconds` to read it all. A library that neither
 * moves nor pages out live blocks shows what cold and hot data cost when they share a heap; paging
 * out needs swap. Cold blocks are written throughout, as data are. Does not measure several
 * threads.
 */
#include "resident.h"
#include "slots.h"

enum { REPLACEMENTS_A_BLOCK = 20 };

static struct table cold, hot;

/* Cold and hot blocks are made in turn, in the proportion of their final counts. */
static void fill_both(size_t cold_bytes, uint32_t hot_count)
{
    while (cold.live_bytes < cold_bytes) {
        uint32_t index = cold.live++;
        slot_fill(&cold, index);
        struct slot *slot = &cold.slots[index];
        memset(slot->block, (int)(slot->stamp & 0xff), slot->bytes);
        block_stamp(slot->block, slot->bytes, slot->stamp);
        while (hot.live < hot_count * cold.live_bytes / cold_bytes && hot.live < hot_count)
            slot_fill(&hot, hot.live++);
    }
}

int main(int argc, char **argv)
{
    uint64_t seed = argument(argc, argv, 1, "seed");
    size_t cold_bytes = argument(argc, argv, 2, "cold KiB") * 1024;
    uint32_t hot_count = (uint32_t)argument(argc, argv, 3, "hot");
    uint64_t rounds = argument(argc, argv, 4, "rounds");
    if (cold_bytes == 0 || hot_count == 0)
        fail("some cold and some hot data");
    table_open(&cold, (uint32_t)(cold_bytes / slot_sizes[0]) + 1, random_stream(seed, 0));
    table_open(&hot, hot_count, random_stream(seed, 1));
    watch_start();
    start_clock();
    fill_both(cold_bytes, hot_count);
    stop_clock();
    struct memory full = watch_sample();
    for (uint64_t i = 0; i < rounds; i++) {
        double mark = read_clocks().wall;
        start_clock();
        table_churn(&hot, (uint64_t)hot_count * REPLACEMENTS_A_BLOCK);
        stop_clock();
        watch_until(mark + curve_step);
    }
    struct memory before = watch_sample();
    trim();
    struct memory asked = watch_sample();
    struct memory second_later = watch_until(read_clocks().wall + 1);
    double mark = read_clocks().wall;
    for (uint32_t i = 0; i < cold.live; i++)
        block_check(cold.slots[i].block, cold.slots[i].bytes, cold.slots[i].stamp);
    double wake_seconds = read_clocks().wall - mark;
    struct memory awake = watch_sample();
    double live_kib = (double)(cold.live_bytes + hot.live_bytes) / 1024;
    table_shrink(&cold, 0);
    table_shrink(&hot, 0);
    result_number("live_kib", live_kib);
    result_number("wake_seconds", wake_seconds);
    result_memory("full", full);
    result_memory("before", before);
    result_memory("asked", asked);
    result_memory("asked_1s", second_later);
    result_memory("awake", awake);
    result_watch();
    return result_print(cold.check * 31 + hot.check);
}
