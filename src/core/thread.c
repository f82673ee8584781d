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
#include "core/home.h"
#include "core/purge.h"
#include "core/registry.h"
#include "os/lock.h"
#include "os/os.h"

enum {
    ATTACHES_MAX = 4,
    FAIR_MIN = 64 * 1024, /* of small blocks, for each cache, however many there are */
    CACHES_A_CPU = 1,     /* that may be full at the same time                       */
    SPANS_PER_SMALL = 12, /* bytes of large blocks for each byte of small ones       */
    UNUSED_WARM = 4,      /* caches of ended threads kept as they are                */
};

static struct lock registry_lock;
static struct cache *warm; /* unused caches that still hold blocks */
static struct cache *cold; /* unused caches that are empty         */
static unsigned warm_count;
static _Atomic size_t attached;
static unsigned cpus = 1;
static bool is_hooked;

static _Thread_local uint8_t attaches; /* of this thread */

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
    cpus = cpu_count;
    for (unsigned is_span = 0; is_span < 2; is_span++) {
        size_t each = is_span ? bytes_each * SPANS_PER_SMALL : bytes_each;
        store(&cache_budgets[is_span].each, each, RELAXED);
        store(&cache_budgets[is_span].all, each * CACHES_A_CPU * cpu_count, RELAXED);
    }
    share_budget();
    lock_release(&registry_lock, RANK_REGISTRY);
}

size_t thread_cache_bytes_limit(void)
{
    size_t limit = 0;
    for (unsigned is_span = 0; is_span < 2; is_span++) {
        struct cache_budget *budget = &cache_budgets[is_span];
        limit += load(&budget->all, RELAXED) + load(&budget->fair, RELAXED) * registry_count();
    }
    return limit;
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

/* Gives the calling thread a cache of its own. */
static struct cache *attach(void)
{
    if (attaches >= ATTACHES_MAX)
        return NULL;
    lock_acquire(&registry_lock, RANK_REGISTRY);
    struct cache *cache = unused_pop(&warm);
    warm_count -= cache != NULL;
    if (cache == NULL)
        cache = unused_pop(&cold);
    if (cache == NULL)
        cache = registry_make(false);
    if (cache != NULL) {
        store(&cache->state, CACHE_OWNED, RELAXED);
        fetch_add(&attached, 1, RELAXED);
        share_budget();
    }
    lock_release(&registry_lock, RANK_REGISTRY);
    if (cache == NULL)
        return NULL;
    cache_of_thread = cache;
    home_enter(cache->home);
    if (is_hooked) {
        attaches++;
        os_thread_exit_arm(cache);
    }
    return cache;
}

/* Empties a cache that nobody else can see, and puts it where the next thread finds it. */
static void retire(struct cache *cache)
{
    cache_empty(cache);
    registry_cool(cache);
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
    store(&cache->state, CACHE_SPARE, RELAXED);
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

/* A thread that has a cache of its own gives it up where cores' caches are used. */
static void give_up(void)
{
    struct cache *cache = cache_of_thread;
    if (cache == &cache_none)
        return;
    cache_of_thread = &cache_none;
    if (is_hooked) {
        attaches = 0; /* it is not the thread's end */
        os_thread_exit_arm(NULL);
    }
    detach(cache);
}

struct cache *thread_cache(void)
{
    if (!heap_start())
        return NULL;
    if (cores_join(load(&attached, RELAXED), cpus)) {
        give_up();
        if (!home_is_entered())
            home_enter(home_next());
        return cores_take();
    }
    return cache_of_thread != &cache_none ? cache_of_thread : attach();
}

/* `value` may be what another thread left that ended: where no C library runs a hook at its end, a
 * thread that lives on does. */
static void on_thread_exit(void *value)
{
    if (cache_of_thread == value)
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

void thread_fork_adopt(void)
{
    lock_reset(&registry_lock);
    cores_fork_adopt();
    for (struct cache *cache = registry_newest(); cache != NULL; cache = cache->below)
        if (cache != cache_of_thread && !cache->is_for_cores &&
            load(&cache->state, RELAXED) == CACHE_OWNED) {
            registry_adopt(cache);
            detach(cache);
        }
    registry_recount();
}
