/*
 * follow.c: sets of ways; a block's address selects its set, and the block may be in any way of the
 * set.
 *
 * The number of sets in use doubles as more room is asked for, and a block stays in its set: the
 * one that its address selects now, or selected with half as many sets, and so on.
 *
 * A way is free, taken, or a block's. Taken: one thread is entering or removing a block.
 *
 * Owner: any thread, lock-free; docs/protocols/profile.md. Design: docs/design/profiler.md
 */
#include "site/follow.h"

enum { WAY_FREE = 0, WAY_TAKEN = 1 };
_Static_assert(sizeof(struct follow_way) * 2 == CACHE_LINE_BYTES, "two in a line");

void follow_start(struct follow_table *table, void *memory, uint32_t log2_first, uint32_t log2_max)
{
    table->log2_first = log2_first;
    table->log2_max = log2_max;
    store(&table->ways, (struct follow_way *)memory, RELEASE);
}

/* Set of a block that is entered after so many doublings. */
static struct follow_way *set_of(struct follow_table *table, const void *block, uint32_t doublings)
{
    struct follow_way *ways = load(&table->ways, ACQUIRE);
    uint64_t hash = (uint64_t)(uintptr_t)block * 0x9E3779B97F4A7C15;
    return ways + (hash >> (64 - table->log2_first - doublings)) * FOLLOW_WAYS;
}

static size_t ways_used(const struct follow_table *table, uint32_t doublings)
{
    return (size_t)FOLLOW_WAYS << (table->log2_first + doublings);
}

void follow_make_room(struct follow_table *table, size_t blocks)
{
    uint32_t doublings = load(&table->doublings, RELAXED);
    while (table->log2_first + doublings < table->log2_max &&
           ways_used(table, doublings) < 2 * blocks)
        if (compare_swap(&table->doublings, &doublings, doublings + 1, RELAXED, RELAXED)) /* B0 */
            doublings++;
}

bool follow_begin(struct follow_table *table, const void *block, struct followed followed)
{
    struct follow_way *set = set_of(table, block, load(&table->doublings, RELAXED));
    for (unsigned i = 0; i < FOLLOW_WAYS; i++) {
        uintptr_t expected = WAY_FREE;
        if (load(&set[i].block, RELAXED) != WAY_FREE ||
            !compare_swap(&set[i].block, &expected, WAY_TAKEN, ACQUIRE, RELAXED)) /* B1 */
            continue;
        store(&set[i].word, (uint64_t)followed.birth << 32 | followed.row, RELAXED);
        set[i].estimate = followed.estimate;
        store(&set[i].block, (uintptr_t)block, RELEASE); /* B2 */
        return true;
    }
    return false;
}

static struct followed read_word(struct follow_way *way)
{
    uint64_t word = load(&way->word, RELAXED);
    return (struct followed){.row = (uint32_t)word, .birth = (uint32_t)(word >> 32)};
}

/* Removes the block from a way, if it is there. */
static bool way_end(struct follow_way *way, const void *block, struct followed *out)
{
    uintptr_t expected = (uintptr_t)block;
    if (load(&way->block, RELAXED) != expected ||
        !compare_swap(&way->block, &expected, WAY_TAKEN, ACQUIRE, RELAXED)) /* E1 */
        return false;
    *out = read_word(way);
    out->estimate = way->estimate;
    store(&way->block, WAY_FREE, RELEASE); /* E2 */
    return true;
}

bool follow_end(struct follow_table *table, const void *block, struct followed *out)
{
    for (uint32_t doublings = load(&table->doublings, RELAXED) + 1; doublings-- > 0;) {
        struct follow_way *set = set_of(table, block, doublings);
        for (unsigned i = 0; i < FOLLOW_WAYS; i++)
            if (way_end(&set[i], block, out))
                return true;
    }
    return false;
}

bool follow_next(struct follow_table *table, const void **block, struct followed *out)
{
    size_t count = ways_used(table, load(&table->doublings, RELAXED));
    struct follow_way *way = load(&table->ways, ACQUIRE) + table->clock_hand++ % count;
    uintptr_t found = load(&way->block, ACQUIRE); /* N1: pairs with B2 */
    *block = (const void *)found;
    *out = read_word(way);
    return found > WAY_TAKEN;
}
