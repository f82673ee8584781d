/*
 * registry.c: makes caches, and lists them all.
 *
 * Owner: the list, by compare-and-swap on `newest`; a cache's `below` and `number` never change
 * once it is published.
 */
#include "core/registry.h"

#include "core/cache_arrays.h"
#include "core/depot.h"
#include "core/home.h"
#include "mem/meta.h"
#include "os/os.h"

enum { TRIES_MAX = 64 };

static struct cache *_Atomic newest;
static _Atomic uint32_t caches_made;

struct cache *registry_newest(void)
{
    return load(&newest, ACQUIRE);
}

size_t registry_count(void)
{
    return load(&caches_made, RELAXED);
}

/* Initialises a cache in new memory, and publishes it. */
static struct cache *publish(struct cache *cache, bool is_for_cores)
{
    if (cache == NULL)
        return NULL;
    cache->arena_used = offsetof(struct cache, arena);
    cache->number = fetch_add(&caches_made, 1, RELAXED) + 1;
    cache->is_for_cores = is_for_cores;
    cache->home = is_for_cores ? 0 : (uint8_t)home_next();
    store(&cache->state, CACHE_OWNED, RELAXED);
    cache->below = load(&newest, RELAXED);
    for (unsigned tries = 0; tries < TRIES_MAX; tries++)
        if (compare_swap(&newest, &cache->below, cache, RELEASE, RELAXED))
            return cache;
    return NULL;
}

struct cache *registry_make(bool is_for_cores)
{
    return publish((struct cache *)meta_alloc(CACHE_BYTES, _Alignof(struct cache)), is_for_cores);
}

void registry_cool(struct cache *cache)
{
    size_t arena = align_up(offsetof(struct cache, arena), depot_page_bytes);
    if ((uintptr_t)cache % depot_page_bytes != 0 || sizeof cache->entries % depot_page_bytes != 0 ||
        os_purge_own(cache->entries, sizeof cache->entries) != 0 ||
        os_purge_own((char *)cache + arena, CACHE_BYTES - arena) != 0)
        return;
    edit_begin(cache); /* a fork in between would leave an array unused twice */
    cache->arena_used = offsetof(struct cache, arena);
    __builtin_memset(cache->free_arrays, 0, sizeof cache->free_arrays);
    edit_end(cache);
}

void registry_adopt(struct cache *cache)
{
    if (load(&cache->edits, RELAXED) != 0)
        cache_abandon(cache);
    else
        cache_mend(cache);
}

void registry_recount(void)
{
    size_t in_use = 0;
    for (struct cache *cache = registry_newest(); cache != NULL; cache = cache->below)
        in_use += cache->capacity_bytes;
    store(&caches_budget.in_use, in_use, RELAXED);
}

const struct watch_fact registry_facts[] = {
    FACT_AT("cache.newest", newest),
    FACT_AT("cache.by_cores", cores_are_used),
    FACT_NUMBER("cache.below", offsetof(struct cache, below)),
    FACT_NUMBER("cache.number", offsetof(struct cache, number)),
    FACT_NUMBER("cache.is_for_cores", offsetof(struct cache, is_for_cores)),
    FACT_NUMBER("cache.core", offsetof(struct cache, core)),
    FACT_NUMBER("cache.state", offsetof(struct cache, state)),
    FACT_NUMBER("cache.head", offsetof(struct cache, below)),
    FACT_NUMBER("cache.head_bytes", offsetof(struct cache, arena) - offsetof(struct cache, below)),
    FACT_NUMBER("cache.used_rows", offsetof(struct cache, used_rows)),
    FACT_NUMBER("cache.entries", offsetof(struct cache, entries)),
    FACT_NUMBER("cache.row.used_bins", offsetof(struct cache_row, used_bins)),
    FACT_NUMBER("cache.entry_bytes", ENTRY_BYTES),
    FACT_NUMBER("cache.first", offsetof(struct cache_entry, first)),
    FACT_NUMBER("cache.top", offsetof(struct cache_entry, top)),
    FACT_NUMBER("cache.limit", offsetof(struct cache_entry, limit)),
    FACT_NUMBER("cache.slots_log2_min", SLOTS_LOG2_MIN),
    FACT_NUMBER("cache.rows", ROW_LIMIT),
    FACTS_END,
};
