/*
 * table_model.c: the shipped core/depot_table.c under the explorer: first uses of bins at once, of
 * which one thread is stopped for ever at any step.
 *
 * Checked after every schedule: a bin has one depot in the list, and whoever asked for it got that
 * one, finds it in the table, and searches its row.
 *
 * Not covered: what the machine reorders (the explorer runs all operations in one total order);
 * more than two bins, three threads or three preemptions; the fork.
 */
#include "explore.h"

#include "core/depot_table.c"

enum { THREADS = 3, BINS = 4 };

static struct depot *got[THREADS];
static bool may_stop;

#define MEMORY_BYTES (8 * sizeof(struct depot))
#include "bump_meta.h"

/* Thread 0 is the one that is stopped, or not. */
static void step(void)
{
    if (may_stop && explore_self() == 0 && explore_pick(2) == 1)
        explore_stop();
}

static void begin(void)
{
    for (size_t i = 0; i < memory_used; i++)
        memory[i] = 0;
    memory_used = 0;
    for (unsigned bin = 0; bin < BINS; bin++)
        atomic_store(&depot_table[bin], NULL), atomic_store(&depot_rows[bin_class(bin)][0], 0);
    atomic_store(&depot_list, NULL);
    for (unsigned t = 0; t < THREADS; t++)
        got[t] = NULL;
    may_stop = false;
}

static void begin_with_stop(void)
{
    begin();
    may_stop = true;
}

static void make(unsigned bin)
{
    struct depot *depot = depot_make(bin);
    if (depot == NULL || depot->bin != bin || depot_of(bin) != depot)
        explore_fail("a bin's first use found no depot, or another");
    if (depot_row_from(bin_class(bin), bin_row(bin)) != bin_row(bin))
        explore_fail("a row with a depot is not searched");
    got[explore_self()] = depot;
}

static void make_one(void)
{
    make(1);
}

static void make_two(void)
{
    make(2);
    make(1);
}

static void end(void)
{
    struct depot *of_bin[BINS] = {NULL};
    for (struct depot *depot = depot_newest(); depot != NULL; depot = depot->below) {
        if (of_bin[depot->bin] != NULL)
            explore_fail("a bin has two depots in the list");
        of_bin[depot->bin] = depot;
    }
    for (unsigned t = 0; t < THREADS; t++)
        if (got[t] != NULL && got[t] != of_bin[got[t]->bin])
            explore_fail("somebody works on a depot that is not in the list");
    for (unsigned bin = 0; bin < BINS; bin++)
        if (depot_of(bin) != NULL && depot_of(bin) != of_bin[bin])
            explore_fail("the table names a depot that is not in the list");
    for (unsigned t = 1; t < THREADS; t++)
        if (got[t] == NULL)
            explore_fail("a stopped thread held up another");
}

int main(void)
{
    const struct explore_case cases[] = {
        {"table: one bin, three threads", 3, 3, begin, {make_one, make_one, make_one}, end},
        {"table: two bins, three threads", 2, 3, begin, {make_one, make_two, make_two}, end},
        {"table: the maker is stopped", 3, 3, begin_with_stop, {make_one, make_one, make_one}, end},
        {"table: a maker of two is stopped",
         2,
         3,
         begin_with_stop,
         {make_two, make_one, make_two},
         end},
    };
    explore_each_step(step);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        explore(&cases[i]);
    return 0;
}
