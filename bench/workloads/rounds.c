/*
 * rounds SEED ROUNDS MIB BYTES WAIT: ROUNDS times allocates MIB mebibytes in blocks of BYTES,
 * writes every page and frees all, in the order in which they came. Then little work: a handful of
 * small blocks every 5 ms. With WAIT 1 that goes on for 4 s.
 *
 * Measures what stays resident of a peak that is over, at 0, 1 and 4 s, in a program that goes on
 * living: an allocator that gives back when it is called has the calls to do it, and few. `full` is
 * sampled before the last free. Does not measure a program that calls no more (free-all), nor what
 * the next peak pays.
 */
#include "resident.h"
#include "written.h"

enum { LITTLE = 64, LITTLE_MAX = 512, MARKS = 3 };

static void *little[LITTLE];

static uint64_t fill(struct table *table, uint32_t bytes, uint32_t count)
{
    while (table->live < count)
        slot_hold(table, table->live++, slot_site(bytes), bytes);
    return table->live_bytes;
}

static void drop_all(struct table *table)
{
    for (uint32_t i = 0; i < table->live; i++)
        slot_empty(table, i);
    table->live = 0;
}

/* Until `wall`, with a sample each quarter of a second. */
static struct memory little_work(uint64_t *random, double wall)
{
    double next = read_clocks().wall + curve_step;
    for (double now = read_clocks().wall; now < wall; now = read_clocks().wall) {
        for (unsigned i = 0; i < LITTLE; i++) {
            free(little[i]);
            little[i] = allocate(16 + random_below(random, LITTLE_MAX), 1);
        }
        sleep_until(now + 0.005);
        if (now >= next) {
            watch_sample();
            next += curve_step;
        }
    }
    return watch_sample();
}

int main(int argc, char **argv)
{
    static const double seconds[MARKS] = {0, 1, 4};
    static const char *const names[MARKS] = {"0s", "1s", "4s"};
    uint64_t random = random_stream(argument(argc, argv, 1, "seed"), 0);
    uint64_t count = argument(argc, argv, 2, "rounds");
    uint64_t bytes_each = argument(argc, argv, 3, "mib") << 20;
    uint32_t bytes = (uint32_t)argument(argc, argv, 4, "bytes");
    unsigned marks = argument(argc, argv, 5, "wait") != 0 ? MARKS : 1;
    struct memory at[MARKS], full = {0};
    struct table table;
    if (count == 0 || bytes < SLOT_PAGE || bytes_each < bytes)
        fail("at least one round of at least one block of %d bytes", SLOT_PAGE);
    table_open(&table, (uint32_t)(bytes_each / bytes), random);
    watch_start();
    struct memory start = watch_sample();
    uint64_t faults = page_faults();
    for (uint64_t round = 0; round < count; round++) {
        start_clock();
        fill(&table, bytes, table.capacity);
        stop_clock();
        full = watch_sample();
        start_clock();
        drop_all(&table);
        stop_clock();
    }
    faults = page_faults() - faults;
    double mark = read_clocks().wall;
    for (unsigned i = 0; i < marks; i++)
        at[i] = i == 0 ? watch_sample() : little_work(&random, mark + seconds[i]);
    trim();
    struct memory trimmed = watch_sample();
    result_memory("start", start);
    result_memory("full", full);
    for (unsigned i = 0; i < marks; i++)
        result_memory(names[i], at[i]);
    result_memory("trimmed", trimmed);
    result_number("page_faults", (double)faults);
    result_watch();
    for (unsigned i = 0; i < LITTLE; i++)
        free(little[i]);
    return result_print(table.check);
}
