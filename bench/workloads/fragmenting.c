/*
 * fragmenting SEED LIVE REPLACEMENTS PIN_KIB WAIT: grows to LIVE blocks, replaces a random one
 * REPLACEMENTS times, shrinks to 5 % and replaces those a tenth as often: once to warm up, once for
 * comparison, and once more in a heap prepared to be in the way. To prepare it, PIN_KIB of each of
 * 20 sizes that the work does not use are allocated, every other block is freed, and the rest stays
 * until the end. With WAIT 1 it samples 1 and 11 s after the last work as well.
 *
 * Measures how much more the same work holds and costs in such a heap. `resident_over_live` counts
 * what stays pinned as live; `resident_over_live_before` is the unprepared heap's, right after the
 * work. The clock counts the work in the prepared heap; `slowdown` is its CPU time over that
 * before. Does not measure a heap that grew that way by itself over days.
 */
#include "resident.h"
#include "slots.h"

enum { PIN_SIZES = 20 };

static const uint32_t pin_sizes[PIN_SIZES] = {24,   40,   56,   80,   112,   160,  224,
                                              320,  448,  640,  896,  1280,  1536, 1792,
                                              2560, 3072, 3584, 6144, 12288, 24576};

static struct table pins;

/* Allocates `count` blocks and frees every other one; the rest moves to the front of what was
 * added.
 */
static void pin(uint32_t bytes, uint32_t count)
{
    uint32_t first = pins.live, kept = first;
    for (uint32_t i = 0; i < count; i++)
        slot_hold(&pins, pins.live++, malloc(bytes), bytes);
    for (uint32_t i = 0; i < count; i++) {
        if (i % 2 == 0)
            pins.slots[kept++] = pins.slots[first + i];
        else
            slot_empty(&pins, first + i);
    }
    pins.live = kept;
}

/* Sizes ascend, so that no hole of one can serve the next. */
static void prepare(uint64_t seed, size_t pin_bytes)
{
    uint32_t capacity = 0;
    for (unsigned i = 0; i < PIN_SIZES; i++)
        capacity += (uint32_t)(pin_bytes / pin_sizes[i]) + 1;
    table_open(&pins, capacity, random_stream(seed, 1));
    for (unsigned i = 0; i < PIN_SIZES; i++)
        pin(pin_sizes[i], (uint32_t)(pin_bytes / pin_sizes[i]) + 1);
}

/* The same sequence each time, each time in a table of its own. The clock keeps the last. */
static struct table work(uint64_t seed, uint32_t live, uint64_t replacements)
{
    struct table table;
    table_open(&table, live, random_stream(seed, 0));
    clock_total = (struct reading){0};
    start_clock();
    table_grow(&table, live);
    table_churn(&table, replacements);
    table_shrink(&table, live / 20);
    table_churn(&table, replacements / 10);
    stop_clock();
    table_tighten(&table);
    watch_sample();
    return table;
}

static uint64_t finish(struct table *table)
{
    table_shrink(table, 0);
    table_close(table);
    watch_sample();
    return table->check;
}

int main(int argc, char **argv)
{
    uint64_t seed = argument(argc, argv, 1, "seed");
    uint32_t live = (uint32_t)argument(argc, argv, 2, "live");
    uint64_t replacements = argument(argc, argv, 3, "replacements");
    size_t pin_bytes = argument(argc, argv, 4, "pin KiB") * 1024;
    bool waits = argument(argc, argv, 5, "wait") != 0;
    if (live < 20)
        fail("at least 20 live blocks");
    watch_start();
    struct table table = work(seed, live, replacements);
    uint64_t check = finish(&table);
    table = work(seed, live, replacements);
    double cpu_before = clock_total.cpu;
    double before_kib = (double)watch_sample().resident_kib;
    double before_live_kib = (double)table.live_bytes / 1024;
    check = check * 31 + finish(&table);
    prepare(seed, pin_bytes);
    struct memory prepared = watch_sample();
    table = work(seed, live, replacements);
    struct aftermath worked = watch_aftermath(waits);
    double live_kib = (double)(table.live_bytes + pins.live_bytes) / 1024;
    check = check * 31 + finish(&table);
    result_number("live_kib", live_kib);
    result_number("pinned_kib", (double)pins.live_bytes / 1024);
    table_shrink(&pins, 0);
    struct memory ended = watch_sample();
    result_number("resident_over_live", (double)aftermath_last(&worked).resident_kib / live_kib);
    result_number("trimmed_over_live", (double)worked.trimmed.resident_kib / live_kib);
    result_number("resident_over_live_before", before_kib / before_live_kib);
    result_number("cpu_seconds_before", cpu_before);
    result_number("slowdown", clock_total.cpu / cpu_before);
    result_memory("prepared", prepared);
    result_aftermath("worked_", &worked);
    result_memory("ended", ended);
    result_watch();
    return result_print(check * 31 + pins.check);
}
