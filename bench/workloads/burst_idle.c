/*
 * burst_idle SEED BURSTS LIVE KEPT IDLE_MS: BURSTS times, fills up to LIVE blocks of 15 sizes,
 * replaces as many at random, frees all but KEPT, and then does nothing for IDLE_MS.
 *
 * Measures what a program that mostly waits holds meanwhile: `resident_idle_kib` is the mean over
 * all idle time, sampled four times a second; the curve shows when memory goes back. The clock
 * counts the bursts alone: memory that was given back must be faulted in again, so read both. CPU
 * time that a library spends while the program is idle is `idle_cpu_seconds`, with the sampling's
 * own in it. Does not measure several threads.
 */
#include "resident.h"
#include "slots.h"

static struct table table;

/* One burst; returns what was resident at its height. */
static long burst(uint32_t live, uint32_t kept)
{
    start_clock();
    table_grow(&table, live);
    table_churn(&table, live);
    stop_clock();
    long height = watch_sample().resident_kib;
    start_clock();
    table_shrink(&table, kept);
    stop_clock();
    table_tighten(&table);
    watch_sample();
    return height;
}

int main(int argc, char **argv)
{
    double idle_kib = 0, idle_cpu = 0;
    uint64_t idle_samples = 0;
    long height = 0;
    uint64_t random = random_stream(argument(argc, argv, 1, "seed"), 0);
    uint64_t bursts = argument(argc, argv, 2, "bursts");
    uint32_t live = (uint32_t)argument(argc, argv, 3, "live");
    uint32_t kept = (uint32_t)argument(argc, argv, 4, "kept");
    double idle = (double)argument(argc, argv, 5, "idle ms") / 1000;
    if (bursts == 0 || kept == 0 || kept > live || idle < curve_step)
        fail("some bursts, fewer blocks kept than live, and at least 250 ms of idle time");
    table_open(&table, live, random);
    watch_start();
    for (uint64_t i = 0; i < bursts; i++) {
        long now = burst(live, kept);
        height = now > height ? now : height;
        struct reading mark = read_clocks();
        for (double at = curve_step; at <= idle; at += curve_step) {
            sleep_until(mark.wall + at);
            idle_kib += (double)watch_sample().resident_kib;
            idle_samples++;
        }
        sleep_until(mark.wall + idle);
        idle_cpu += read_clocks().cpu - mark.cpu;
    }
    struct aftermath after = watch_aftermath(false);
    double live_kib = (double)table.live_bytes / 1024;
    table_shrink(&table, 0);
    result_number("live_kib", live_kib);
    result_number("resident_burst_kib", (double)height);
    result_number("resident_idle_kib", idle_kib / (double)idle_samples);
    result_number("idle_cpu_seconds", idle_cpu);
    result_aftermath("last_", &after);
    result_watch();
    return result_print(table.check);
}
