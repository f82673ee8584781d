/*
 * follow.c: sets of ways; a block's address selects its set, and the block may be in any way of the
 * set.
 *
 * The number of sets in use doubles as more room is asked for, and a block stays in its set: the
 * one that its address selects now, or selected with half as many sets, and so on.
 *
 * A way is free, taken, or a block's. Taken: one thread is entering or removing a block.
 *
 * Owner: any thread, lock-free; docs/protocols/learned.md. Design: docs/design/learned.md
 */
#include "site/follow.h"

enum { WAY_FREE = 0, WAY_TAKEN = 1 };
_Static_assert(sizeof(struct follow_way) * 4 == CACHE_LINE_BYTES, "four in a line");

/* Set of a block that is entered after so many doublings. */
static struct follow_way *set_of(struct follow_table *table, const void *block, uint32_t doublings)
{
    uint64_t hash = (uint64_t)(uintptr_t)block * 0x9E3779B97F4A7C15;
    return &table->ways[(hash >> (64 - FOLLOW_SETS_LOG2_FIRST - doublings)) * FOLLOW_WAYS];
}

static size_t ways_used(uint32_t doublings)
{
    return (size_t)FOLLOW_WAYS << (FOLLOW_SETS_LOG2_FIRST + doublings);
}

void follow_make_room(struct follow_table *table, size_t blocks)
{
    uint32_t doublings = load(&table->doublings, RELAXED);
    while (doublings < FOLLOW_DOUBLINGS && ways_used(doublings) < 4 * blocks)
        if (compare_swap(&table->doublings, &doublings, doublings + 1, RELAXED, RELAXED)) /* B0 */
            doublings++;
}

static uint64_t pack(struct followed followed)
{
    return (uint64_t)followed.birth << 32 | followed.record;
}

static struct followed unpack(uint64_t word)
{
    return (struct followed){(uint32_t)(word >> 32), (uint16_t)word};
}

bool follow_begin(struct follow_table *table, const void *block, struct followed followed)
{
    struct follow_way *set = set_of(table, block, load(&table->doublings, RELAXED));
    for (unsigned i = 0; i < FOLLOW_WAYS; i++) {
        uintptr_t expected = WAY_FREE;
        if (load(&set[i].block, RELAXED) != WAY_FREE ||
            !compare_swap(&set[i].block, &expected, WAY_TAKEN, ACQUIRE, RELAXED)) /* B1 */
            continue;
        store(&set[i].followed, pack(followed), RELAXED);
        store(&set[i].block, (uintptr_t)block, RELEASE); /* B2 */
        return true;
    }
    return false;
}

/* Removes the block from a way, if it is there. */
static bool way_end(struct follow_way *way, const void *block, struct followed *out)
{
    uintptr_t expected = (uintptr_t)block;
    if (load(&way->block, RELAXED) != expected ||
        !compare_swap(&way->block, &expected, WAY_TAKEN, ACQUIRE, RELAXED)) /* E1 */
        return false;
    *out = unpack(load(&way->followed, RELAXED));
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
    struct follow_way *way =
        &table->ways[table->clock_hand++ % ways_used(load(&table->doublings, RELAXED))];
    uintptr_t found = load(&way->block, ACQUIRE); /* N1: pairs with B2 */
    *block = (const void *)found;
    *out = unpack(load(&way->followed, RELAXED));
    return found > WAY_TAKEN;
}
