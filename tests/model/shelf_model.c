/*
 * shelf_model.c: the shipped core/shelf.c under the explorer, with shelves of two slots.
 *
 * Checked after every schedule: each block is in one hand, in one slot or in the spans; a shelf
 * that has a block says so; a drain finds all; of two threads that free
 * one block one is told that it did.
 *
 * Not covered: what the machine reorders (the explorer runs all operations in one total order);
 * more than three blocks of two lengths, three threads or three preemptions.
 */
#include "explore.h"

#include "core/shelf.c"

enum { BLOCKS = 3, UNITS = 2, LONGER = 3, IN_HAND = 1, GONE = 2 };

struct region region;
_Atomic bool marks_are_unsure;
uint64_t cache_mark = (uint64_t)MARK_HIGHEST << MARK_RANDOM_BITS;
unsigned home_count;
_Thread_local struct thread_words of_thread;
static _Alignas(UNIT_BYTES) char memory[(BLOCKS * LONGER + 1) * UNIT_BYTES];
static struct unit_entry map[BLOCKS * LONGER + 1];
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

bool large_lay_aside(void *block)
{
    return exchange(&map[region_unit(block)].kind, UNIT_FREE, ACQ_REL) == UNIT_HEAD;
}

void large_take_up(void *block, size_t units)
{
    (void)units;
    store(&map[region_unit(block)].kind, UNIT_HEAD, RELAXED);
}

void large_release(void *block)
{
    in_spans[number_of(block)]++;
}

void *large_acquire(size_t units, size_t align_units, unsigned owner, bool *is_zero)
{
    (void)units, (void)align_units, (void)owner, (void)is_zero;
    return NULL;
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

/* Threads have homes of their own where there are several. */
static void enter(void)
{
    of_thread.home = explore_self() % home_count;
}

static void give(unsigned number)
{
    hands[number]--;
    if (!shelf_give(block_of(number)))
        explore_fail("a block that was in a hand is said to be free");
}

/* BLOCKS: there was none. */
static unsigned take(void)
{
    void *block = shelf_find((struct shelf_wish){.units = UNITS, .align = UNIT_BYTES});
    if (block == NULL)
        return BLOCKS;
    if (++hands[number_of(block)] > 1)
        explore_fail("a block is in two hands");
    return number_of(block);
}

static void begin_with(unsigned homes)
{
    home_count = homes;
    of_thread.home = 0;
    __builtin_memset((void *)sets, 0, sizeof sets);
    region.base = memory;
    region.map = map;
    atomic_store(&region.units, BLOCKS * LONGER + 1);
    region.tags = (struct span_tag *)(void *)memory; /* owners: 0 */
    freed = 0;
    for (unsigned i = 0; i < BLOCKS; i++) {
        hands[i] = 1;
        in_spans[i] = 0;
        atomic_store(&map[1 + i * LONGER].kind, UNIT_HEAD);
    }
    explore_each_step(enter);
}

static void begin(void)
{
    begin_with(1);
}

static void begin_with_one(void)
{
    begin_with(1);
    give(0);
}

static void begin_with_two_homes(void)
{
    begin_with(2);
    give(0);
}

static void end(void)
{
    unsigned slots[BLOCKS] = {0};
    for (unsigned home = 0; home < home_count; home++) {
        for (size_t at = 0; at < SHELVES; at++) {
            bool is_filled = (atomic_load(&sets[home].filled[at / 64]) & bit_of(at)) != 0;
            if (has_blocks(&sets[home].shelves[at]) && !is_filled)
                explore_fail("a shelf hides a block");
            for (unsigned i = 0; i < SLOTS; i++) {
                uint64_t word = atomic_load(&sets[home].shelves[at].slots[i]);
                if (word == 0)
                    continue;
                slots[number_of(region_address(word_unit(word)))]++;
            }
        }
    }
    for (unsigned i = 0; i < BLOCKS; i++)
        if (hands[i] + slots[i] + in_spans[i] != 1)
            explore_fail("a block was lost, or is in two places");
    shelf_drain(true);
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
    shelf_drain(true);
}

static void drain_idle(void)
{
    shelf_drain(false);
}

/* Two threads free block 0, which is the program's mistake. */
static void free_once(void)
{
    if (shelf_give(block_of(0))) {
        hands[0] = 0;
        freed++;
    }
}

int main(void)
{
    static const struct explore_case cases[] = {
        {"shelf: some come while others are taken",
         3,
         2,
         begin_with_one,
         {give_two, take_two},
         end},
        {"shelf: a drain comes between", 3, 3, begin_with_one, {give_two, take_one, drain}, end},
        {"shelf: what is idle goes", 3, 2, begin_with_one, {take_and_give, drain_idle}, end},
        {"shelf: two are emptied at once",
         2,
         3,
         begin_with_one,
         {take_one, give_two, take_one},
         end},
        {"shelf: a slot is too few", 4, 2, begin, {give_three, take_two}, end},
        {"shelf: two put at once", 3, 2, begin, {give_first, give_two}, end},
        {"shelf: two homes", 4, 2, begin_with_two_homes, {give_two, take_and_give}, end},
        {"shelf: two free one block", 3, 2, begin, {free_once, free_once}, end_freed_once},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++)
        explore(&cases[i]);
    return 0;
}
