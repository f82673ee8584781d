/*
 * churn SEED WINDOWS LIVE BYTES OPERATIONS [PRIORITY]: keeps LIVE blocks of one size and OPERATIONS
 * times frees a random one and allocates another. With a PRIORITY, 1 to 99, it stays on one core
 * and has it before all ordinary threads (SCHED_FIFO), or is left out where the system refuses
 * that. WINDOWS 0 times each free and each malloc for itself; else the operations are cut into that
 * many windows of equal length and each window is timed as a whole. With each of them goes a
 * measurement of nothing, `nothing_...`, and two of waits as long as a malloc and a free take on
 * average, `malloc_wait_...` and `free_wait_...`: what the machine alone does to as many
 * measurements, and to as much time, at the same moment.
 *
 * Measures the tail of calls that miss the caches of the allocator and of the processor, and
 * whether operations get slower while the heap gets older. Each block carries its slot's number in
 * its first and last eight bytes, read before its free: so the block itself is warm when it is
 * freed, as in a program that looks at what it frees. Does not measure mixed sizes or other
 * threads.
 */
#include "tail.h"

#include <errno.h>
#include <sched.h>

enum { WINDOWS_MAX = 1000, LEFT_OUT = 77 };

static void **slots;
static uint32_t live;
static size_t bytes;
static uint64_t random_state, check;
static struct tail mallocs, frees, nothings;
static struct waits malloc_waits, free_waits;
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
        timed_wait_like(&malloc_waits, &mallocs);
        timed_wait_like(&free_waits, &frees);
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

/* Nobody but the kernel takes the core away then; by default it does for 50 ms of each second. */
static void keep_a_core(uint64_t priority)
{
    cpu_set_t allowed, one;
    struct sched_param wanted = {.sched_priority = (int)priority};
    int core = CPU_SETSIZE - 1;
    sched_getaffinity(0, sizeof allowed, &allowed);
    while (core > 0 && !CPU_ISSET(core, &allowed))
        core--;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    if (sched_setaffinity(0, sizeof one, &one) != 0 ||
        sched_setscheduler(0, SCHED_FIFO, &wanted) != 0) {
        fprintf(stderr, "SCHED_FIFO is refused here: %s\n", strerror(errno));
        exit(LEFT_OUT);
    }
    sched_getparam(0, &wanted);
    result_number("priority", wanted.sched_priority);
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
    if (argc > 6)
        keep_a_core(argument(argc, argv, 6, "priority"));
    slots = calloc(live, sizeof *slots);
    if (slots == NULL)
        fail("no memory for the slots");
    tail_begin();
    for (uint32_t slot = 0; slot < live; slot++) {
        slots[slot] = allocate(bytes, 0);
        stamp_put(slots[slot], bytes, slot);
    }
    if (window_count == 0) {
        waits_begin(&malloc_waits);
        waits_begin(&free_waits);
        start_clock();
        run_single(operations);
        stop_clock();
        tail_result_empty();
        tail_result("malloc", &mallocs);
        tail_result("free", &frees);
        tail_result("nothing", &nothings);
        tail_result("malloc_wait", &malloc_waits.tail);
        tail_result("free_wait", &free_waits.tail);
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
