/*
 * churn SEED WINDOWS LIVE BYTES OPERATIONS: keeps LIVE blocks of one size and OPERATIONS times
 * frees a random one and allocates another. WINDOWS 0 times each free and each malloc for itself;
 * else the operations are cut into that many windows of equal length and each window is timed as a
 * whole. With each of them goes a measurement of nothing, `nothing_...`: what the machine alone
 * does to as many measurements at the same time.
 *
 * Measures the tail of calls that miss the caches of the allocator and of the processor, and
 * whether operations get slower while the heap gets older. Each block carries its slot's number in
 * its first and last eight bytes, read before its free: so the block itself is warm when it is
 * freed, as in a program that looks at what it frees. Does not measure mixed sizes or other
 * threads.
 */
#include "tail.h"

enum { WINDOWS_MAX = 1000 };

static void **slots;
static uint32_t live;
static size_t bytes;
static uint64_t random_state, check;
static struct tail mallocs, frees, nothings;
static double windows[WINDOWS_MAX][2];

static void run_single(uint64_t operations)
{
    for (uint64_t i = 0; i < operations; i++) {
        uint32_t slot = random_below(&random_state, live);
        timed_free(&frees, slots[slot], bytes, slot);
        slots[slot] = timed_malloc(&mallocs, bytes, slot);
        check += slot;
        uint64_t before = ticks_before(), after = ticks_after();
        tail_add(&nothings, before, after);
    }
}

static void run_window(uint64_t operations)
{
    for (uint64_t i = 0; i < operations; i++) {
        uint32_t slot = random_below(&random_state, live);
        stamp_verify(slots[slot], bytes, slot);
        free(slots[slot]);
        slots[slot] = allocate(bytes, 0);
        stamp_put(slots[slot], bytes, slot);
        check += slot;
    }
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* The window at `percent` of `count` windows in order of their times. */
static double window_percentile(unsigned first, unsigned count, unsigned percent)
{
    static double times[WINDOWS_MAX];
    for (unsigned i = 0; i < count; i++)
        times[i] = windows[first + i][1];
    qsort(times, count, sizeof *times, compare);
    return times[(count - 1) * percent / 100];
}

static void result_windows(unsigned count)
{
    unsigned tenth = count < 10 ? 1 : count / 10;
    double early = window_percentile(0, tenth, 50),
           late = window_percentile(count - tenth, tenth, 50);
    result_number("window_p50_ns", window_percentile(0, count, 50));
    result_number("window_p90_ns", window_percentile(0, count, 90));
    result_number("window_max_ns", window_percentile(0, count, 100));
    result_number("window_first_tenth_ns", early);
    result_number("window_last_tenth_ns", late);
    result_number("window_drift", late / early);
    result_series("window_ns", (const double(*)[2])windows, count);
}

int main(int argc, char **argv)
{
    random_state = random_stream(argument(argc, argv, 1, "seed"), 0);
    unsigned window_count = (unsigned)argument(argc, argv, 2, "windows");
    live = (uint32_t)argument(argc, argv, 3, "live");
    bytes = argument(argc, argv, 4, "bytes");
    uint64_t operations = argument(argc, argv, 5, "operations");
    if (bytes < 16 || window_count > WINDOWS_MAX || operations < window_count)
        fail("blocks of at least 16 bytes, at most %d windows of at least one operation",
             WINDOWS_MAX);
    slots = calloc(live, sizeof *slots);
    if (slots == NULL)
        fail("no memory for the slots");
    tail_begin();
    for (uint32_t slot = 0; slot < live; slot++) {
        slots[slot] = allocate(bytes, 0);
        stamp_put(slots[slot], bytes, slot);
    }
    if (window_count == 0) {
        start_clock();
        run_single(operations);
        stop_clock();
        tail_result_empty();
        tail_result("malloc", &mallocs);
        tail_result("free", &frees);
        tail_result("nothing", &nothings);
    }
    for (unsigned i = 0; i < window_count; i++) {
        double before = clock_total.wall;
        start_clock();
        run_window(operations / window_count);
        stop_clock();
        windows[i][0] = i;
        windows[i][1] = (clock_total.wall - before) * 1e9 / (double)(operations / window_count);
    }
    for (uint32_t slot = 0; slot < live; slot++) {
        stamp_verify(slots[slot], bytes, slot);
        free(slots[slot]);
    }
    if (window_count != 0)
        result_windows(window_count);
    free(slots);
    return result_print(check);
}
