/*
 * deferred_model.c: the shipped core/deferred.c under the explorer, with two slabs of one depot.
 *
 * Checked after every schedule: each block is in one hand or in one map; whoever takes all that
 * there are finds each; no slab is in the stack twice; the count is what there is.
 *
 * Not covered: what the machine reorders (the explorer runs all operations in one total order);
 * more than two slabs, three threads or three preemptions; bookkeeping that changes hands, and
 * bins that change.
 */
#include "explore.h"

#include "core/deferred.c"

enum { BIN = 5, SLABS = 2, BLOCKS_EACH = 4, BLOCKS = SLABS * BLOCKS_EACH };

struct region region;
static struct chunk_entry map[SLABS + 1];
static struct span_tag tags[(SLABS + 1) * CHUNK_UNITS];
static struct slab slabs[SLABS + 1]; /* by their number and their chunk; 0 is none */
static _Atomic uint64_t maps[SLABS + 1][CACHE_LINE_BYTES / sizeof(uint64_t)];
static struct deferred deferred;
static unsigned hands[BLOCKS]; /* how many have the block */

void *meta_at(uint32_t number)
{
    return &slabs[number];
}

uint32_t meta_number(const void *piece)
{
    return (uint32_t)((const struct slab *)piece - slabs);
}

static void put(unsigned block)
{
    hands[block]--;
    if (!deferred_put(&deferred, &slabs[1 + block / BLOCKS_EACH], block % BLOCKS_EACH))
        explore_fail("a block that was in a hand is said to be freed twice");
}

/* The first of what was taken, or BLOCKS. */
static unsigned take(size_t want)
{
    unsigned first = BLOCKS;
    void *out[BLOCKS];
    size_t count = deferred_take(&deferred, out, want);
    if (count > want)
        explore_fail("more came than was asked for");
    for (size_t i = 0; i < count; i++) {
        size_t chunk = region_chunk(out[i]);
        unsigned number = class_block(BIN, (uint16_t)(uintptr_t)out[i]);
        unsigned block = (unsigned)(chunk - 1) * BLOCKS_EACH + number;
        if (++hands[block] > 1)
            explore_fail("a block is in two hands");
        first = i == 0 ? block : first;
    }
    return first;
}

static void begin(void)
{
    region.map = map;
    region.tags = tags;
    deferred = (struct deferred){0};
    for (unsigned i = 1; i <= SLABS; i++) {
        atomic_store(&map[i].bin, BIN);
        for (unsigned word = 0; word < sizeof maps[i] / sizeof maps[i][0]; word++)
            atomic_store(&maps[i][word], 0);
        slabs[i] = (struct slab){.chunk = i, .deferred = maps[i], .lines = 2};
    }
    for (unsigned i = 0; i < BLOCKS; i++)
        hands[i] = 1;
}

static void begin_with_two(void)
{
    begin();
    put(0);
    put(1);
}

static void end(void)
{
    bool is_met[SLABS + 1] = {false};
    for (uint32_t number = (uint32_t)atomic_load(&deferred.slabs.top); number != 0;
         number = atomic_load(&slabs[number].below_deferred)) {
        if (is_met[number])
            explore_fail("a slab is in the stack twice");
        is_met[number] = true;
    }
    while (take(BLOCKS) != BLOCKS)
        continue;
    for (unsigned i = 0; i < BLOCKS; i++)
        if (hands[i] != 1)
            explore_fail("a block was lost");
    if (atomic_load(&deferred.blocks) != 0)
        explore_fail("the count is not what there was");
}

static void put_two(void)
{
    put(2);
    put(3);
}

static void put_in_both(void)
{
    put(4);
    put(2);
}

static void put_two_others(void)
{
    put(5);
    put(3);
}

static void take_one_and_put(void)
{
    unsigned block = take(1);
    if (block != BLOCKS)
        put(block);
}

static void take_all(void)
{
    take(BLOCKS);
}

static void take_one(void)
{
    take(1);
}

int main(void)
{
    static const struct explore_case cases[] = {
        {"deferred: some come while others are taken",
         3,
         3,
         begin_with_two,
         {put_two, take_all, take_one},
         end},
        {"deferred: two slabs", 3, 3, begin, {put_in_both, put_two_others, take_all}, end},
        {"deferred: one goes round",
         2,
         3,
         begin_with_two,
         {take_one_and_put, take_all, put_two},
         end},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++)
        explore(&cases[i]);
    return 0;
}
