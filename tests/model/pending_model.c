/*
 * pending_model.c: the shipped base/tagged_stack.h and mem/pending.c under the explorer.
 *
 * Checked after every schedule: every unit is in one hand or in one stack; whoever merges finds all
 * that is left.
 *
 * Not covered: what the machine reorders (the explorer runs all operations in one total order);
 * more than eight units, three threads or three preemptions; the lists under the lock.
 */
#include "explore.h"

#include "mem/pending.c"

enum { UNITS = 8 };

struct region region;
static struct span_tag tags[UNITS];
static unsigned hands[UNITS]; /* how many have the unit */
static struct pending nobodys;

struct pending *span_lists_pending(unsigned owner)
{
    (void)owner;
    return &nobodys;
}

static void put(size_t unit, size_t units)
{
    for (size_t u = unit; u < unit + units; u++)
        hands[u]--;
    pending_put(unit, units, SPAN_DIRTY);
}

static size_t got(struct span span)
{
    for (size_t u = span.unit; u < span.unit + span.units; u++)
        if (++hands[u] > 1)
            explore_fail("a unit is in two hands");
    return span.unit;
}

static size_t take(size_t units)
{
    return got(pending_take(units, 1, 0));
}

static size_t pop(void)
{
    return got(pending_pop(SPAN_DIRTY));
}

static void begin(void)
{
    nobodys = (struct pending){0};
    for (unsigned state = 0; state < 2; state++) {
        counts[state] = 0;
        used[state][0] = 0;
    }
    region.tags = tags;
    for (size_t u = 0; u < UNITS; u++) {
        tags[u] = (struct span_tag){0};
        hands[u] = 1;
    }
    put(3, 2);
    put(2, 1);
    put(1, 1);
}

static void end(void)
{
    while (pop() != 0)
        continue;
    for (size_t u = 1; u < UNITS; u++)
        if (hands[u] != 1)
            explore_fail("a unit was lost");
    if (pending_units(SPAN_DIRTY) != 0)
        explore_fail("what is pending was lost count of");
}

static void end_joined(void)
{
    pending_join(0);
    take(4);
    if (hands[1] != 1 || hands[4] != 1)
        explore_fail("neighbours were not joined");
    end();
}

static void take_one(void)
{
    take(1);
}

/* Has one come back while another thread is between the two loads of a pop. */
static void take_two_put_one(void)
{
    size_t first = take(1);
    take(1);
    if (first != 0)
        put(first, 1);
}

static void put_one(void)
{
    put(5, 1);
}

static void put_two(void)
{
    put(6, 2);
}

/* Of an even address: the topmost, which has not, goes back. */
static void take_aligned(void)
{
    got(pending_take(1, 2, 0));
}

static void join_all(void)
{
    pending_join(0);
}

/* What is in another's hand is not found, but all that is left after both is. */
static void take_three(void)
{
    got(pending_take(3, 1, 0));
}

static void merge(void)
{
    for (unsigned i = 0; i < 3 && pop() != 0; i++)
        continue;
}

int main(void)
{
    const struct explore_case cases[] = {
        {"pending: take against take, take and put",
         3,
         2,
         begin,
         {take_one, take_two_put_one},
         end},
        {"pending: put against a merge", 3, 2, begin, {put_one, merge}, end},
        {"pending: take what does not fit against a merge",
         3,
         2,
         begin,
         {take_aligned, merge},
         end},
        {"pending: join against take and put", 3, 2, begin, {join_all, take_two_put_one}, end},
        {"pending: join against join", 2, 2, begin, {join_all, join_all}, end_joined},
        {"pending: join, take and merge", 2, 3, begin, {join_all, take_three, merge}, end},
        {"pending: put, take and merge", 2, 3, begin, {put_two, take_aligned, merge}, end},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        explore(&cases[i]);
    return 0;
}
