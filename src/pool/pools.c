/*
 * pools.c: the table of pools, with their address ranges. Lock-free.
 *
 * An entry's version is odd while the entry changes. A reader accepts an entry only if the version
 * was even before and is unchanged after the read. A changing entry belongs to a pool that is being
 * created or destroyed, of which no thread may hold a block. So no reader waits, and none reads
 * memory of a destroyed pool.
 *
 * Owner: any thread. A writer claims an entry by compare-and-swap of its version; steps T1 to T3 in
 * docs/protocols/pools-table.md
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

/* T1: claims an unused entry. */
static bool claim_entry(struct entry *entry, uint64_t *version)
{
    *version = load(&entry->version, ACQUIRE);
    return (*version & 1) == 0 && load(&entry->bytes, RELAXED) == 0 &&
           compare_swap(&entry->version, version, *version + 1, ACQUIRE, RELAXED);
}

/* T2: writes the fields between an odd and an even version. The fence keeps them after the odd
 * one. */
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
            ; /* grows only, at most CALM_POOLS_MAX times */
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

/* T3: accepts an entry only if it did not change during the read. */
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
