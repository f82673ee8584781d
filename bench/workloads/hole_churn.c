/*
 * hole_churn SEED ROUNDS LIVE IDLE_MS: ROUNDS times, fills up to LIVE blocks of 15 sizes, frees
 * nine of ten at random, and then does nothing for IDLE_MS, at least a second. At the end the
 * library is asked to give back.
 *
 * Measures whether pages go back that lie between live blocks: `back_1s_share` is by how much less
 * is resident a second after the last free than before the first, over the bytes of the pages that
 * had blocks and have no live byte any more, all rounds together; `back_idle_share` is the same at
 * the end of the idle time, and `back_trimmed_share` that of the last round after asking. Shares
 * above 1 mean that other memory went as well. The clock runs through the idle time too, so CPU
 * time has in it what it costs to give back, and what it costs to fault in again. Does not measure
 * several threads, nor what a caller of the allocator waits meanwhile.
 */
#include "resident.h"
#include "slots.h"

enum { SURVIVORS = 10 };

static struct table table;

/* KiB of the pages in which a live block has a byte, each page counted once. */
static double covered_kib(void)
{
    unsigned bits = 1;
    while ((uint64_t)1 << bits < 2 * (table.live_bytes / SLOT_PAGE + 2 * (uint64_t)table.live))
        bits++;
    size_t bytes = sizeof(uintptr_t) << bits, mask = ((size_t)1 << bits) - 1, count = 0;
    uintptr_t *seen = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (seen == MAP_FAILED)
        fail("no memory to count pages");
    for (uint32_t i = 0; i < table.live; i++) {
        uintptr_t first = (uintptr_t)table.slots[i].block;
        uintptr_t last = (first + table.slots[i].bytes - 1) / SLOT_PAGE;
        for (uintptr_t page = first / SLOT_PAGE; page <= last; page++) {
            size_t at = (size_t)(page * 0x9e3779b97f4a7c15u >> (64 - bits));
            while (seen[at] != 0 && seen[at] != page)
                at = (at + 1) & mask;
            count += seen[at] == 0;
            seen[at] = page;
        }
    }
    munmap(seen, bytes);
    return (double)count * SLOT_PAGE / 1024;
}

/* KiB, summed over the rounds. */
static struct {
    double full, wholly_free, after_1s, after_idle;
} sums;

/* One round; returns the KiB that were resident before anything was freed. */
static double hole(uint32_t live, double idle)
{
    start_clock();
    table_grow(&table, live);
    stop_clock();
    double covered = covered_kib();
    double full = (double)watch_sample().resident_kib;
    start_clock();
    table_shrink(&table, live / SURVIVORS);
    double mark = read_clocks().wall;
    sleep_until(mark + 1);
    stop_clock();
    sums.after_1s += (double)watch_sample().resident_kib;
    start_clock();
    sleep_until(mark + idle);
    stop_clock();
    sums.after_idle += (double)watch_sample().resident_kib;
    sums.wholly_free += covered - covered_kib();
    sums.full += full;
    return full;
}

int main(int argc, char **argv)
{
    double full = 0, last_free = 0;
    uint64_t random = random_stream(argument(argc, argv, 1, "seed"), 0);
    unsigned rounds = (unsigned)argument(argc, argv, 2, "rounds");
    uint32_t live = (uint32_t)argument(argc, argv, 3, "live");
    double idle = (double)argument(argc, argv, 4, "idle ms") / 1000;
    if (rounds == 0 || live < SURVIVORS || idle < 1)
        fail("some rounds, at least %d blocks, and a second of idle time", SURVIVORS);
    table_open(&table, live, random);
    watch_start();
    for (unsigned i = 0; i < rounds; i++) {
        last_free = sums.wholly_free;
        full = hole(live, idle);
    }
    last_free = sums.wholly_free - last_free;
    trim();
    double trimmed = (double)watch_sample().resident_kib;
    double live_kib = (double)table.live_bytes / 1024;
    table_shrink(&table, 0);
    result_number("live_kib", live_kib);
    result_number("wholly_free_kib", sums.wholly_free / rounds);
    result_number("resident_full_kib", sums.full / rounds);
    result_number("resident_1s_kib", sums.after_1s / rounds);
    result_number("resident_idle_kib", sums.after_idle / rounds);
    result_number("resident_trimmed_kib", trimmed);
    result_number("back_1s_share", (sums.full - sums.after_1s) / sums.wholly_free);
    result_number("back_idle_share", (sums.full - sums.after_idle) / sums.wholly_free);
    result_number("back_trimmed_share", (full - trimmed) / last_free);
    result_watch();
    return result_print(table.check);
}
