/*
 * retire SEED ROUNDS KIB: ROUNDS times a thread is created, allocates KIB kibibytes of blocks of 16
 * to 4096 B, frees them all at random, and ends.
 *
 * Measures a thread's end: the time from its last statement until the thread that waits for it goes
 * on (`retire_p99_ns`; the kernel's part of it is in there, alike for all), and what of its memory
 * is then back with the kernel (`back_share`, the mean over the rounds; `resident_kept_kib` and
 * `resident_kept_1s_kib`, what the process holds after the last round, and 1 s later without a
 * call, above what it held before the first). Every page is written. Does not measure threads that
 * leave blocks behind (larson, leak), nor many at once.
 */
#include "slots.h"

enum { ROUNDS_MAX = 10000, BYTES_LEAST = 16, BYTES_MOST = 4096 };

static double ends[ROUNDS_MAX], ended;
static struct memory before, full;
static struct table table;
static uint64_t bytes_wanted;

static void *work(void *unused)
{
    (void)unused;
    while (table.live_bytes < bytes_wanted) {
        uint32_t granules = random_below(&table.random, BYTES_MOST / BYTES_LEAST);
        uint32_t bytes = BYTES_LEAST * (1 + granules);
        slot_hold(&table, table.live++, slot_site(bytes), bytes);
    }
    full = read_memory();
    table_shrink(&table, 0);
    ended = read_clocks().wall;
    return NULL;
}

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double percentile_ns(uint64_t count, double percent)
{
    uint64_t index = (uint64_t)((double)count * percent / 100);
    return ends[index < count ? index : count - 1] * 1e9;
}

int main(int argc, char **argv)
{
    uint64_t random = random_stream(argument(argc, argv, 1, "seed"), 0);
    uint64_t rounds = argument(argc, argv, 2, "rounds");
    bytes_wanted = argument(argc, argv, 3, "kib") << 10;
    double shares = 0;
    struct memory after = {0};
    if (rounds == 0 || rounds > ROUNDS_MAX || bytes_wanted == 0)
        fail("1 to %d rounds of at least one KiB", ROUNDS_MAX);
    table_open(&table, (uint32_t)(bytes_wanted / BYTES_LEAST + 1), random);
    before = read_memory();
    start_clock();
    for (uint64_t i = 0; i < rounds; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, work, NULL) != 0 || pthread_join(thread, NULL) != 0)
            fail("a thread could not be created");
        ends[i] = read_clocks().wall - ended;
        after = read_memory();
        shares += (double)(full.resident_kib - after.resident_kib) * 1024 / (double)bytes_wanted;
    }
    stop_clock();
    sleep_until(read_clocks().wall + 1);
    struct memory later = read_memory();
    qsort(ends, rounds, sizeof *ends, compare);
    result_number("retire_p50_ns", percentile_ns(rounds, 50));
    result_number("retire_p99_ns", percentile_ns(rounds, 99));
    result_number("retire_max_ns", percentile_ns(rounds, 100));
    result_number("back_share", shares / (double)rounds);
    result_number("resident_kept_kib", (double)(after.resident_kib - before.resident_kib));
    result_number("resident_kept_1s_kib", (double)(later.resident_kib - before.resident_kib));
    return result_print(table.check);
}
