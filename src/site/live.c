/*
 * live.c: sets of ways; a block's address selects its set, and the block may be in any way of the
 * set.
 *
 * A way is free, taken, or a block's. Taken: one thread is entering or removing a block.
 *
 * Owner: any thread, lock-free; docs/protocols/profile.md. Design: docs/design/profiler.md
 */
#include "site/live.h"

#include "base/atomic.h"

enum { WAY_FREE = 0, WAY_TAKEN = 1, SET_BITS = 12 };
_Static_assert(LIVE_SETS == 1 << SET_BITS, "the set is the hash's upper bits");

struct way {
    _Atomic uintptr_t block;   /* address, or WAY_FREE, or WAY_TAKEN */
    struct live_sample sample; /* written by the thread that took it     */
};
_Static_assert(sizeof(struct way) == CACHE_LINE_BYTES / 2, "two in a line");

static struct way *_Atomic table;

size_t live_bytes(void)
{
    return sizeof(struct way) * LIVE_SETS * LIVE_WAYS;
}

void live_start(void *memory)
{
    store(&table, (struct way *)memory, RELEASE);
}

static struct way *set_of(const void *block)
{
    uint64_t hash = (uint64_t)(uintptr_t)block * 0x9E3779B97F4A7C15;
    return load(&table, ACQUIRE) + (hash >> (64 - SET_BITS)) * LIVE_WAYS;
}

bool live_begin(const void *block, struct live_sample sample)
{
    struct way *set = set_of(block);
    for (unsigned i = 0; i < LIVE_WAYS; i++) {
        uintptr_t expected = WAY_FREE;
        if (load(&set[i].block, RELAXED) != WAY_FREE ||
            !compare_swap(&set[i].block, &expected, WAY_TAKEN, ACQUIRE, RELAXED)) /* B1 */
            continue;
        set[i].sample = sample;
        store(&set[i].block, (uintptr_t)block, RELEASE); /* B2 */
        return true;
    }
    return false;
}

bool live_end(const void *block, struct live_sample *out)
{
    struct way *set = set_of(block);
    for (unsigned i = 0; i < LIVE_WAYS; i++) {
        uintptr_t expected = (uintptr_t)block;
        if (load(&set[i].block, RELAXED) != expected ||
            !compare_swap(&set[i].block, &expected, WAY_TAKEN, ACQUIRE, RELAXED)) /* E1 */
            continue;
        *out = set[i].sample;
        store(&set[i].block, WAY_FREE, RELEASE); /* E2 */
        return true;
    }
    return false;
}

const struct watch_fact live_facts[] = {
    FACT_AT("live.table", table),
    FACT_NUMBER("live.ways", LIVE_SETS *LIVE_WAYS),
    FACT_NUMBER("live.way_bytes", sizeof(struct way)),
    FACT_NUMBER("live.block", offsetof(struct way, block)),
    FACT_NUMBER("live.stack", offsetof(struct way, sample.stack)),
    FACT_NUMBER("live.weight", offsetof(struct way, sample.estimate.weight)),
    FACTS_END,
};
