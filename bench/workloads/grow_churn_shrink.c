/*
 * grow_churn_shrink SEED LIVE REPLACEMENTS WAIT ELSEWHERE: fills LIVE blocks of 15 sizes, replaces
 * a random one REPLACEMENTS times, frees 95 % at random, replaces among the survivors a tenth as
 * often, frees all. With ELSEWHERE 0 all blocks come from one call site, with 1 replacements come
 * from another than the fill. With WAIT 1 it also samples 1 and 11 s after the survivors' churn and
 * after the end.
 *
 * Measures what is resident at each step when live memory falls to a twentieth but its blocks lie
 * scattered: `resident_over_live` is for the survivors, at the last sample before the library is
 * asked to give back; what is resident at the end follows that. `resident_highest_kib` is for the
 * whole. All include the program itself, about 2 MiB and the same for all. Does not measure several
 * threads; times are recorded but written pages make them the kernel's as well.
 */
#include "resident.h"
#include "slots.h"

enum { PARTS = 16 };

CALL_SITE(another_site, 1)

static struct table table;

/* In parts, with a sample after each, and only the work timed. */
static struct memory churn_watched(uint64_t count)
{
    struct memory memory = {0};
    for (unsigned part = 0; part < PARTS; part++) {
        start_clock();
        table_churn(&table, count * (part + 1) / PARTS - count * part / PARTS);
        stop_clock();
        memory = watch_sample();
    }
    return memory;
}

static struct memory shrink_watched(uint32_t live)
{
    start_clock();
    table_shrink(&table, live);
    stop_clock();
    table_tighten(&table);
    return watch_sample();
}

int main(int argc, char **argv)
{
    uint64_t random = random_stream(argument(argc, argv, 1, "seed"), 0);
    uint32_t live = (uint32_t)argument(argc, argv, 2, "live");
    uint64_t replacements = argument(argc, argv, 3, "replacements");
    bool waits = argument(argc, argv, 4, "wait") != 0;
    if (live < 20)
        fail("at least 20 live blocks");
    table_open(&table, live, random);
    if (argument(argc, argv, 5, "elsewhere") != 0)
        table.replacing_site = another_site;
    watch_start();
    struct memory start = watch_sample();
    for (unsigned part = 1; part <= PARTS; part++) {
        start_clock();
        table_grow(&table, (uint32_t)((uint64_t)live * part / PARTS));
        stop_clock();
        watch_sample();
    }
    struct memory grown = watch_sample();
    struct memory churned = churn_watched(replacements);
    struct memory cut = shrink_watched(live / 20);
    churn_watched(replacements / 10);
    struct aftermath shrunk = watch_aftermath(waits);
    double live_kib = (double)table.live_bytes / 1024;
    shrink_watched(0);
    struct aftermath ended = watch_aftermath(waits);
    result_number("live_kib", live_kib);
    result_number("resident_over_live", (double)aftermath_last(&shrunk).resident_kib / live_kib);
    result_number("trimmed_over_live", (double)shrunk.trimmed.resident_kib / live_kib);
    result_number("resident_highest_kib", watch_highest());
    result_memory("start", start);
    result_memory("grown", grown);
    result_memory("churned", churned);
    result_memory("cut", cut);
    result_aftermath("shrunk_", &shrunk);
    result_aftermath("ended_", &ended);
    result_watch();
    return result_print(table.check);
}
