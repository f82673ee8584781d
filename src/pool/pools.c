/*
 * pools.c: the table of pools, with ranges and without locks.
 *
 * An entry has a version, odd while it changes. A reader takes an entry only when the version was
 * even and is the same afterwards; an entry that changes meanwhile belongs to a pool that is being
 * made or destroyed, of which nobody may hold a block. So nothing waits, and no memory of a pool
 * that may be gone is read.
 *
 * Owner: any thread. A writer claims an entry by its version, by compare-and-swap; steps T1 to T3
 * in docs/protocols/pools-table.md
 */
#include "pool/pools.h"

#include "pool/pool.h"

struct entry {
    _Atomic uint64_t version;
    _Atomic uintptr_t start; /* of the blocks */
    _Atomic size_t bytes;    /* 0: no pool    */
    calm_pool *_Atomic pool;
};

static struct entry entries[CALM_POOLS_MAX];
_Atomic uint32_t pools_used;

/* T1: makes an unused entry ours. */
static bool claim_entry(struct entry *entry, uint64_t *version)
{
    *version = load(&entry->version, ACQUIRE);
    return (*version & 1) == 0 && load(&entry->bytes, RELAXED) == 0 &&
           compare_swap(&entry->version, version, *version + 1, ACQUIRE, RELAXED);
}

/* T2: between an odd and an even version. The fence keeps the fields behind the odd one. */
static void fill_entry(struct entry *entry, uint64_t version, calm_pool *pool, size_t bytes)
{
    atomic_thread_fence(RELEASE);
    store(&entry->start, (uintptr_t)pool->blocks, RELAXED);
    store(&entry->bytes, bytes, RELAXED);
    store(&entry->pool, pool, RELAXED);
    store(&entry->version, version + 1, RELEASE);
}

bool pools_add(calm_pool *pool)
{
    for (uint32_t i = 0; i < CALM_POOLS_MAX; i++) {
        struct entry *entry = &entries[i];
        uint64_t version;
        if (!claim_entry(entry, &version))
            continue;
        fill_entry(entry, version + 1, pool, pool->blocks_bytes);
        uint32_t used = load(&pools_used, RELAXED);
        while (used <= i && !compare_swap(&pools_used, &used, i + 1, RELEASE, RELAXED))
            ; /* it only grows, at most CALM_POOLS_MAX times */
        return true;
    }
    return false;
}

void pools_remove(calm_pool *pool)
{
    for (uint32_t i = 0; i < CALM_POOLS_MAX; i++) {
        struct entry *entry = &entries[i];
        if (load(&entry->pool, RELAXED) != pool || load(&entry->bytes, RELAXED) == 0)
            continue;
        uint64_t version = load(&entry->version, RELAXED);
        store(&entry->version, version + 1, RELAXED);
        fill_entry(entry, version + 1, pool, 0);
        return;
    }
}

/* T3: what the entry says, if it did not change meanwhile. */
calm_pool *pools_find_slow(const void *address)
{
    uint32_t used = load(&pools_used, ACQUIRE);
    for (uint32_t i = 0; i < used; i++) {
        struct entry *entry = &entries[i];
        uint64_t version = load(&entry->version, ACQUIRE);
        uintptr_t start = load(&entry->start, RELAXED);
        size_t bytes = load(&entry->bytes, RELAXED);
        calm_pool *pool = load(&entry->pool, RELAXED);
        atomic_thread_fence(ACQUIRE);
        bool is_whole = (version & 1) == 0 && load(&entry->version, RELAXED) == version;
        if (is_whole && (uintptr_t)address - start < bytes)
            return pool;
    }
    return NULL;
}
