/*
 * large_cache_model.c: the shipped core/large_cache.c under the explorer, with two slots in a set.
 *
 * Checked after every schedule: each block is in one hand, in one slot or in the spans; a drain
 * finds all; of two threads that free one block one is told that it did.
 *
 * Not covered: what the machine reorders (the explorer runs all operations in one total order);
 * more than three blocks of two lengths, three threads or three preemptions.
 */
#include "explore.h"

#include "core/large_cache.c"

enum { BLOCKS = 3, UNITS = 2, LONGER = 3, IN_HAND = 1, GONE = 2 };

struct region region;
_Atomic bool marks_are_unsure;
uint64_t cache_mark = (uint64_t)MARK_HIGHEST << MARK_RANDOM_BITS;
static _Alignas(UNIT_BYTES) char memory[(BLOCKS * LONGER + 1) * UNIT_BYTES];
static struct span_tag tags[BLOCKS * LONGER + 1];
static unsigned hands[BLOCKS], in_spans[BLOCKS], freed;

static unsigned number_of(const void *block)
{
    return (unsigned)((region_unit(block) - 1) / LONGER);
}

static void *block_of(unsigned number)
{
    return region_address(1 + number * LONGER);
}

/* The last block is longer. */
size_t large_length(const void *block)
{
    return number_of(block) == BLOCKS - 1 ? LONGER : UNITS;
}

bool large_claim(void *block)
{
    return exchange(&tags[region_unit(block)].is_large, false, ACQ_REL);
}

void large_revive(void *block)
{
    store(&tags[region_unit(block)].is_large, true, RELAXED);
}

void large_release(void *block)
{
    in_spans[number_of(block)]++;
}

void purge_note(size_t bytes, size_t block_bytes)
{
    (void)bytes, (void)block_bytes;
}

void misuse_report_spoiled(const void *block, size_t bytes)
{
    (void)block, (void)bytes;
    explore_fail("a block that was put there has no mark");
}

static void give(unsigned number)
{
    hands[number]--;
    if (!large_cache_put(block_of(number)))
        explore_fail("a block that was in a hand is said to be free");
}

/* BLOCKS: there was none. */
static unsigned take(void)
{
    void *block = large_cache_find((struct large_request){.units = UNITS, .align = UNIT_BYTES});
    if (block == NULL)
        return BLOCKS;
    if (++hands[number_of(block)] > 1)
        explore_fail("a block is in two hands");
    return number_of(block);
}

static void begin(void)
{
    __builtin_memset((void *)&large_cache, 0, sizeof large_cache);
    region.base = memory;
    region.tags = tags;
    freed = 0;
    store(&region.chunks, 1, RELAXED);
    for (unsigned i = 0; i < BLOCKS; i++) {
        hands[i] = 1;
        in_spans[i] = 0;
        store(&tags[1 + i * LONGER].is_large, true, RELAXED);
        store(&tags[i * LONGER].state, SPAN_DIRTY, RELAXED); /* all go to the first set */
    }
}

/* The first block goes to the set of its length, the others to the first set. */
static void begin_in_two_sets(void)
{
    begin();
    store(&tags[0].state, SPAN_USED, RELAXED);
    store(&tags[LONGER].state, SPAN_USED, RELAXED);
}

static void begin_with_one(void)
{
    begin();
    give(0);
}

static void end(void)
{
    unsigned slots[BLOCKS] = {0};
    for (unsigned i = 0; i < SETS * SLOTS; i++) {
        uint64_t word = load(&large_cache.sets[i / SLOTS].slots[i % SLOTS], RELAXED);
        if (word != 0)
            slots[number_of(region_address(word_unit(word)))]++;
    }
    size_t units = 0;
    for (unsigned i = 0; i < BLOCKS; i++)
        units += slots[i] * large_length(block_of(i));
    if (large_cache_bytes() != units << UNIT_SHIFT)
        explore_fail("a block is not counted");
    for (unsigned i = 0; i < BLOCKS; i++)
        if (hands[i] + slots[i] + in_spans[i] != 1)
            explore_fail("a block was lost, or is in two places");
    large_cache_drain(true);
    for (unsigned i = 0; i < BLOCKS; i++)
        if (hands[i] + in_spans[i] != 1)
            explore_fail("a drain left a block");
}

static void end_freed_once(void)
{
    if (freed != 1)
        explore_fail("one block was freed by two, or by none");
    end();
}

static void give_first(void)
{
    give(0);
}

static void give_two(void)
{
    give(1);
    give(2);
}

static void give_three(void)
{
    give(0);
    give(1);
    give(2);
}

static void take_one(void)
{
    take();
}

static void take_and_give(void)
{
    unsigned number = take();
    if (number != BLOCKS)
        give(number);
}

static void take_two(void)
{
    take();
    take();
}

static void drain(void)
{
    large_cache_drain(true);
}

static void drain_idle(void)
{
    large_cache_drain(false);
}

/* Two threads free block 0, which is the program's mistake. */
static void free_once(void)
{
    if (large_cache_put(block_of(0))) {
        hands[0] = 0;
        freed++;
    }
}

int main(void)
{
    static const struct explore_case cases[] = {
        {"large_cache: some come while others are taken",
         3,
         2,
         begin_with_one,
         {give_two, take_two},
         end},
        {"large_cache: a drain comes between",
         3,
         3,
         begin_with_one,
         {give_two, take_one, drain},
         end},
        {"large_cache: what is idle goes", 3, 2, begin_with_one, {take_and_give, drain_idle}, end},
        {"large_cache: two are emptied at once",
         2,
         3,
         begin_with_one,
         {take_one, give_two, take_one},
         end},
        {"large_cache: a slot is too few", 4, 2, begin, {give_three, take_two}, end},
        {"large_cache: two slots are too few for two",
         3,
         3,
         begin,
         {give_first, give_two, take_one},
         end},
        {"large_cache: one comes to each set",
         3,
         3,
         begin_in_two_sets,
         {give_three, take_two, drain},
         end},
        {"large_cache: two put at once", 3, 2, begin, {give_first, give_two}, end},
        {"large_cache: two free one block", 3, 2, begin, {free_once, free_once}, end_freed_once},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++)
        explore(&cases[i]);
    return 0;
}
