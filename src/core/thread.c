/*
 * thread.c: attaches a cache to a thread and takes it back when the thread ends.
 *
 * The C library runs our exit hook among the destructors of thread-specific data, in an order we
 * cannot know. A thread that allocates after it gets a cache again and arms the hook again, up to
 * ATTACHES_MAX times; after that it works without a cache, so nothing stays behind. A few caches of
 * ended threads wait as they are for the next threads; the others are emptied, and so are those few
 * when the purger finds them unused.
 *
 * Owner: the registry, under registry_lock (RANK_REGISTRY).
 * Design: docs/design/threads.md
 */
#include "core/thread.h"

#include "core/depot.h"
#include "core/heap.h"
#include "core/purge.h"
#include "mem/meta.h"
#include "os/lock.h"
#include "os/os.h"

enum {
    ATTACHES_MAX = 4,
    FAIR_MIN = 64 * 1024, /* of small blocks, for each cache, however many there are */
    CACHES_A_CPU = 2,     /* that may be full at the same time                       */
    SPANS_PER_SMALL = 8,  /* bytes of large blocks for each byte of small ones       */
    UNUSED_WARM = 4,      /* caches of ended threads kept as they are                */
};

static struct lock registry_lock;
static _Atomic(struct cache *) newest;
static struct cache *warm; /* unused caches that still hold blocks */
static struct cache *cold; /* unused caches that are empty         */
static unsigned warm_count;
static _Atomic size_t attached;
static _Atomic uint32_t caches_made;
static bool is_hooked;

static _Thread_local uint8_t attaches; /* of this thread */

struct cache *thread_newest_cache(void)
{
    return load(&newest, ACQUIRE);
}

size_t thread_count(void)
{
    return load(&attached, RELAXED);
}

/* What each thread has however much the others hold. */
static void share_budget(void)
{
    size_t threads = size_max(load(&attached, RELAXED), 1);
    for (unsigned is_span = 0; is_span < 2; is_span++) {
        struct cache_budget *budget = &cache_budgets[is_span];
        size_t share = size_min(load(&budget->each, RELAXED),
                                load(&budget->all, RELAXED) / threads);
        store(&budget->fair, is_span ? share : size_max(share, FAIR_MIN), RELAXED);
    }
}

void thread_set_budget(size_t bytes_each, unsigned cpu_count)
{
    lock_acquire(&registry_lock, RANK_REGISTRY);
    for (unsigned is_span = 0; is_span < 2; is_span++) {
        size_t each = is_span ? bytes_each * SPANS_PER_SMALL : bytes_each;
        store(&cache_budgets[is_span].each, each, RELAXED);
        store(&cache_budgets[is_span].all, each * CACHES_A_CPU * cpu_count, RELAXED);
    }
    share_budget();
    lock_release(&registry_lock, RANK_REGISTRY);
}

static void unused_push(struct cache **list, struct cache *cache)
{
    cache->next_unused = *list;
    *list = cache;
}

static struct cache *unused_pop(struct cache **list)
{
    struct cache *cache = *list;
    if (cache != NULL)
        *list = cache->next_unused;
    return cache;
}

static struct cache *cache_make(void)
{
    struct cache *cache = meta_alloc(CACHE_BYTES, _Alignof(struct cache));
    if (cache == NULL)
        return NULL;
    cache->arena_used = offsetof(struct cache, arena);
    cache->number = fetch_add(&caches_made, 1, RELAXED) + 1;
    cache->below = load(&newest, RELAXED);
    store(&newest, cache, RELEASE);
    return cache;
}

struct cache *thread_attach(void)
{
    if (attaches >= ATTACHES_MAX || !heap_start())
        return NULL;
    lock_acquire(&registry_lock, RANK_REGISTRY);
    struct cache *cache = unused_pop(&warm);
    warm_count -= cache != NULL;
    if (cache == NULL)
        cache = unused_pop(&cold);
    if (cache == NULL)
        cache = cache_make();
    if (cache != NULL) {
        store(&cache->is_attached, true, RELAXED);
        fetch_add(&attached, 1, RELAXED);
        share_budget();
    }
    lock_release(&registry_lock, RANK_REGISTRY);
    if (cache == NULL)
        return NULL;
    cache_of_thread = cache;
    if (is_hooked) {
        attaches++;
        os_thread_exit_arm(cache);
    }
    return cache;
}

/* An empty cache is all zeros behind its header; one that is not likely to be needed soon costs no
 * memory. */
static void cool_down(struct cache *cache)
{
    size_t header = offsetof(struct cache, entries);
    size_t start = align_up((uintptr_t)cache + header, depot_page_bytes) - (uintptr_t)cache;
    if (start != header || os_purge((char *)cache + start, CACHE_BYTES - start) != 0)
        return;
    cache->arena_used = offsetof(struct cache, arena);
    __builtin_memset(cache->free_arrays, 0, sizeof cache->free_arrays);
}

/* Empties a cache that nobody else can see, and puts it where the next thread finds it. */
static void retire(struct cache *cache)
{
    cache_empty(cache);
    cool_down(cache);
    lock_acquire(&registry_lock, RANK_REGISTRY);
    unused_push(&cold, cache);
    lock_release(&registry_lock, RANK_REGISTRY);
}

/* Keeps a few caches as they are, blocks and all, for the threads that come next; empties the
 * others. */
static void detach(struct cache *cache)
{
    size_t capacity = cache->capacity_bytes[false] + cache->capacity_bytes[true];
    lock_acquire(&registry_lock, RANK_REGISTRY);
    bool is_kept = warm_count < UNUSED_WARM;
    if (is_kept)
        unused_push(&warm, cache);
    warm_count += is_kept;
    fetch_sub(&attached, 1, RELAXED);
    store(&cache->is_attached, false, RELAXED);
    share_budget();
    lock_release(&registry_lock, RANK_REGISTRY);
    if (is_kept)
        purge_note(capacity);
    else
        retire(cache);
}

bool thread_cool_one(void)
{
    lock_acquire(&registry_lock, RANK_REGISTRY);
    struct cache *cache = unused_pop(&warm);
    warm_count -= cache != NULL;
    lock_release(&registry_lock, RANK_REGISTRY);
    if (cache != NULL)
        retire(cache);
    return cache != NULL;
}

static void on_thread_exit(void *value)
{
    cache_of_thread = &cache_none;
    detach(value);
}

void thread_start(void)
{
    if (is_hooked || os_on_thread_exit(on_thread_exit) != 0)
        return;
    is_hooked = true;
    if (cache_of_thread != &cache_none)
        os_thread_exit_arm(cache_of_thread);
}

void thread_fork_lock(void)
{
    lock_acquire(&registry_lock, RANK_REGISTRY);
}

void thread_fork_unlock(void)
{
    lock_release(&registry_lock, RANK_REGISTRY);
}

/* A fork may lie between a cache's own count and the common one. */
static void recount(void)
{
    size_t in_use[2] = {0, 0};
    for (struct cache *cache = thread_newest_cache(); cache != NULL; cache = cache->below)
        for (unsigned is_span = 0; is_span < 2; is_span++)
            in_use[is_span] += cache->capacity_bytes[is_span];
    for (unsigned is_span = 0; is_span < 2; is_span++)
        store(&cache_budgets[is_span].in_use, in_use[is_span], RELAXED);
}

void thread_fork_adopt(void)
{
    lock_reset(&registry_lock);
    for (struct cache *cache = thread_newest_cache(); cache != NULL; cache = cache->below)
        if (cache != cache_of_thread && load(&cache->is_attached, RELAXED)) {
            if (load(&cache->edits, RELAXED) != 0)
                cache_abandon(cache);
            else
                cache_mend(cache);
            detach(cache);
        }
    recount();
}
