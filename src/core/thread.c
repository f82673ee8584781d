/*
 * thread.c: attaches a cache to a thread, and detaches it when the thread ends.
 *
 * The C library runs the exit hook among the destructors of thread-specific data, in an unknown
 * order. A thread that allocates after its hook ran gets a cache again and arms the hook again, up
 * to ATTACHES_MAX caches in all; then the thread works without a cache, so nothing is left behind.
 * A few caches of ended threads stay warm, with their blocks, for the next threads. The others are
 * emptied, and so are warm caches that a purge tick finds unused.
 *
 * Owner: any thread, lock-free; unused caches are in stacks (base/tagged_stack.h). In a process
 * with several threads, signals but SIGTRAP, SIGSYS and the C library's own are blocked while a
 * cache is in no stack and attached to no thread. A handler that runs there all the same gets no
 * cache, and a child that it forks takes over none (`transfers`).
 * Design: docs/design/threads.md
 */
#include "core/thread.h"

#include "base/tagged_stack.h"
#include "core/depot.h"
#include "core/above.h"
#include "core/home.h"
#include "core/purge_turn.h"
#include "core/registry.h"
#include "mem/meta.h"
#include "os/os.h"

enum {
    ATTACHES_MAX = 4,
    FAIR_MIN = 64 * 1024,         /* least bytes of a fair share */
    CACHES_A_CPU = 1,             /* caches that may be full at the same time */
    HEAVY_BYTES = 64 * 1024,      /* bytes of capacity that double a cache's weight */
    UNUSED_WARM = 4,              /* warm caches kept */
    WARM_BYTES = 4 * 1024 * 1024, /* capacity of the warm caches; an idle process keeps it */
};

/* Initial state of a thread. */
_Thread_local struct thread_words of_thread = {.cache = &cache_none, .small = class_small};

static struct tagged_stack warm;        /* unused caches with blocks */
static struct tagged_stack cold;        /* unused, empty caches */
static struct cache *_Atomic inherited; /* newest to inherit; others by `below` */
static uint32_t forks;                  /* from the first process to this one */
static _Atomic unsigned warm_count;
static _Atomic size_t warm_bytes; /* capacity of the warm caches */
static _Atomic size_t attached;
static _Atomic size_t heavy_caches; /* caches with is_counted_heavy: attached, or not yet reused */
static _Atomic unsigned cpus = 1;
static bool is_hooked;

static _Thread_local uint8_t attaches;  /* of this thread */
static _Thread_local uint8_t transfers; /* nesting of transfer_begin(), of this thread */

/* Around the use of a cache in no stack and attached to no thread, and until the exit hook is armed
 * for it: a handler may allocate or fork there, where signals are not blocked. */
static void transfer_begin(void)
{
    transfers++;
    atomic_signal_fence(memory_order_seq_cst);
}

static void transfer_end(void)
{
    atomic_signal_fence(memory_order_seq_cst);
    transfers--;
}

size_t thread_count(void)
{
    return load(&attached, RELAXED);
}

/* The cache weight of all threads: 1 for each own cache, 2 for a heavy one (core/cores.h). */
static size_t cache_weight(void)
{
    return load(&attached, RELAXED) + load(&heavy_caches, RELAXED);
}

void thread_update_weight(struct cache *cache)
{
    bool is_heavy = cache->capacity_bytes >= HEAVY_BYTES;
    if (is_heavy == cache->is_counted_heavy)
        return;
    cache->is_counted_heavy = is_heavy;
    fetch_add(&heavy_caches, is_heavy ? 1 : (size_t)-1, RELAXED);
    cores_note_weight(cache_weight(), load(&cpus, RELAXED));
}

static void share(size_t threads)
{
    struct cache_budget *budget = &caches_budget;
    size_t each = size_min(load(&budget->each, RELAXED),
                           load(&budget->all, RELAXED) / size_max(threads, 1));
    atomic_store(&budget->fair, size_max(each, FAIR_MIN));
}

/* Recomputes the fair share, which each thread may use whatever the others hold. The thread that
 * stores last has checked afterwards that the number of threads still holds. */
static void share_budget(void)
{
    size_t threads = atomic_load(&attached), seen;
    do {
        seen = threads;
        share(seen);
        threads = atomic_load(&attached);
    } while (threads != seen); /* each turn is another thread's progress */
}

void thread_set_budget(size_t bytes_each, size_t bytes_all, unsigned cpu_count)
{
    store(&cpus, cpu_count, RELAXED);
    store(&caches_budget.each, bytes_each, RELAXED);
    store(&caches_budget.all, size_min(bytes_each * CACHES_A_CPU * cpu_count, bytes_all), RELAXED);
    share_budget();
}

size_t thread_cache_bytes_limit(void)
{
    return load(&caches_budget.all, RELAXED) +
           load(&caches_budget.fair, RELAXED) * registry_count();
}

static _Atomic uint32_t *below_of(uint32_t number)
{
    return &((struct cache *)meta_at(number))->below_unused;
}

static void unused_push(struct tagged_stack *stack, struct cache *cache)
{
    tagged_push(stack, meta_number(cache), below_of);
}

static struct cache *unused_pop(struct tagged_stack *stack)
{
    uint32_t number = tagged_pop(stack, below_of);
    return number == 0 ? NULL : (struct cache *)meta_at(number);
}

/* Whether a thread of the parent owned the cache, and no thread of this process has. */
static bool is_inherited(const struct cache *cache)
{
    return !cache->is_for_cores && cache->forks != forks;
}

static struct cache *inherited_pop(void)
{
    struct cache *cache = load(&inherited, RELAXED);
    while (cache != NULL) { /* each turn skips a cache, or is another thread's progress */
        if (!compare_swap(&inherited, &cache, cache->below, RELAXED, RELAXED))
            continue;
        if (is_inherited(cache))
            break;
        cache = cache->below;
    }
    return cache;
}

static struct cache *warm_pop(void)
{
    struct cache *cache = unused_pop(&warm);
    if (cache == NULL)
        cache = inherited_pop();
    if (cache == NULL)
        return NULL;
    fetch_sub(&warm_count, 1, RELAXED);
    fetch_sub(&warm_bytes, cache->capacity_bytes, RELAXED);
    if (unlikely(is_inherited(cache))) {
        cache->forks = forks;
        store(&cache->state, CACHE_SPARE, RELAXED);
        registry_adopt(cache);
    }
    return cache;
}

/* Attaches a cache to the calling thread. Signals are blocked. */
static struct cache *attach_quietly(void)
{
    struct cache *cache = warm_pop();
    if (cache == NULL)
        cache = unused_pop(&cold);
    if (cache == NULL && (cache = registry_make(false)) != NULL)
        cache->forks = forks;
    if (cache == NULL)
        return NULL;
    of_thread.cache = cache; /* a handler that forks finds it spare, or attached */
    store(&cache->state, CACHE_OWNED, RELAXED);
    atomic_fetch_add(&attached, 1);
    thread_update_weight(cache);
    cores_note_weight(cache_weight(), load(&cpus, RELAXED));
    share_budget();
    return cache;
}

static struct cache *attach(void)
{
    uint64_t signals;
    if (attaches >= ATTACHES_MAX || transfers != 0) /* a handler interrupted an attach or detach */
        return NULL;
    bool is_quiet = os_signals_block(&signals);
    transfer_begin();
    struct cache *cache = attach_quietly();
    if (is_quiet)
        os_signals_restore(signals);
    if (cache != NULL) {
        home_enter(cache->home);
        if (is_hooked) {
            attaches++;
            os_thread_exit_arm(cache);
        }
    }
    transfer_end();
    return cache;
}

/* Empties a cache that nobody else can see, and pushes it onto `cold`. Signals are blocked: else a
 * handler that forks would find it in no stack. */
static void retire(struct cache *cache)
{
    cache_empty(cache);
    registry_cool(cache);
    unused_push(&cold, cache);
}

/* Detaches the calling thread's cache. Keeps a few caches warm for the next threads, unless threads
 * use per-CPU caches. Signals are blocked. Returns whether the cache was kept. */
static bool detach_quietly(struct cache *cache)
{
    size_t bytes = cache->capacity_bytes;
    bool is_kept = fetch_add(&warm_count, 1, RELAXED) < UNUSED_WARM &&
                   !load(&cores_are_used, RELAXED);
    is_kept = fetch_add(&warm_bytes, bytes, RELAXED) + bytes <= WARM_BYTES && is_kept;
    store(&cache->state, CACHE_SPARE, RELAXED);
    if (of_thread.cache == cache)
        of_thread.cache = &cache_none;
    if (is_kept) {
        unused_push(&warm, cache);
    } else {
        fetch_sub(&warm_count, 1, RELAXED);
        fetch_sub(&warm_bytes, bytes, RELAXED);
    }
    atomic_fetch_sub(&attached, 1);
    share_budget();
    return is_kept;
}

/* Whether most of the heap is free, so that warm caches would mainly pin pages. */
static bool is_mostly_free(void)
{
    size_t bytes = depot_free_bytes();
    return bytes > WARM_BYTES && bytes > depot_slab_bytes() / 2;
}

/* Detaches a cache, and empties it unless it stays warm. Where no two threads are left to pass
 * batches to each other, the batches go to the bitmaps. */
static void detach(struct cache *cache)
{
    uint64_t signals;
    size_t capacity = cache->capacity_bytes;
    bool is_quiet = os_signals_block(&signals);
    transfer_begin();
    bool is_kept = detach_quietly(cache);
    if (!is_kept)
        retire(cache);
    transfer_end();
    if (is_quiet)
        os_signals_restore(signals);
    if (is_kept)
        purge_note(capacity, 0);
    bool is_last = load(&attached, RELAXED) <= 1 && !load(&cores_are_used, RELAXED);
    while (is_last && is_mostly_free() && thread_cool_one())
        continue;
    if (is_last)
        depot_tidy_all(false);
    purge_settle();
}

bool thread_cool_one(void)
{
    uint64_t signals;
    if (load(&warm_count, RELAXED) == 0)
        return false;
    bool is_quiet = os_signals_block(&signals);
    transfer_begin();
    struct cache *cache = warm_pop();
    if (cache != NULL)
        retire(cache);
    transfer_end();
    if (is_quiet)
        os_signals_restore(signals);
    return cache != NULL;
}

/* Detaches the thread's own cache, before the thread works on per-CPU caches. */
static void detach_own(void)
{
    struct cache *cache = of_thread.cache;
    if (cache == &cache_none)
        return;
    transfer_begin();
    of_thread.cache = &cache_none; /* first: the C library may allocate or free */
    if (is_hooked) {
        attaches = 0; /* the thread is not ending */
        os_thread_exit_arm(NULL);
    }
    detach(cache);
    transfer_end();
}

struct cache *thread_cache(void)
{
    if (!above.start())
        return NULL;
    /* A slow path that is unfinished works on the cache, or attaches it. */
    bool is_in_use = of_thread.cache != &cache_none && (os_is_telling() || transfers != 0);
    if (!is_in_use && cores_join(cache_weight(), load(&cpus, RELAXED))) {
        detach_own();
        if (!home_is_entered())
            home_enter(home_next());
        return cores_take();
    }
    return of_thread.cache != &cache_none ? of_thread.cache : attach();
}

void thread_empty_cache(void)
{
    struct cache *cache = of_thread.cache;
    if (cache != &cache_none) {
        cache_empty(cache);
    } else if (of_thread.area != NULL && (cache = cores_take()) != NULL) {
        cache_empty(cache);
        cores_return(cache);
    }
}

/* `value` may be an ended thread's cache: where no C library runs the hook when a thread ends, a
 * living thread runs it. */
static void on_thread_exit(void *value)
{
    detach((struct cache *)value);
}

void thread_start(void)
{
    if (is_hooked || os_on_thread_exit(on_thread_exit) != 0)
        return;
    is_hooked = true;
    if (of_thread.cache != &cache_none)
        os_thread_exit_arm(of_thread.cache);
}

/* Marks the caches in a stack as this process's. Counts them and their capacity. */
static void claim_all(struct tagged_stack *stack, unsigned *count, size_t *bytes)
{
    for (uint32_t number = (uint32_t)load(&stack->top, RELAXED); number != 0;
         number = load(below_of(number), RELAXED)) {
        struct cache *cache = (struct cache *)meta_at(number);
        cache->forks = forks;
        *count += 1;
        *bytes += cache->capacity_bytes;
    }
}

/* Whether any other thread ever had a cache, or worked on a per-CPU cache. */
static bool others_are_seen(void)
{
    for (struct cache *cache = registry_newest(); cache != NULL; cache = cache->below)
        if (cache != of_thread.cache && !cache->is_for_cores)
            return true;
    return cores_joined() > 1;
}

/*
 * A cache in no stack was attached to a thread, or was being attached or detached. If the child's
 * own thread was doing so, and goes on with it, all of them stay out of use. Else they stay warm,
 * with their blocks, whatever their number. They are mended when a thread or the purger takes one:
 * a child that soon runs another program needs none, and every page of a cache written here is
 * copied.
 */
void thread_fork_adopt(bool was_alone)
{
    struct cache *newest = registry_newest();
    /* A thread unknown to the C library is seen by its cache, once it has one. */
    if (!was_alone || others_are_seen())
        store(&marks_are_unsure, true, RELAXED);
    cores_fork_adopt();
    forks++;
    unsigned count = 0, cold_count = 0;
    size_t bytes = 0, cold_bytes = 0;
    claim_all(&cold, &cold_count, &cold_bytes);
    claim_all(&warm, &count, &bytes);
    if (of_thread.cache != &cache_none)
        of_thread.cache->forks = forks;
    if (transfers != 0)
        newest = NULL;
    for (struct cache *cache = newest; cache != NULL; cache = cache->below)
        if (is_inherited(cache)) {
            count++;
            bytes += cache->capacity_bytes;
        }
    store(&inherited, newest, RELAXED);
    store(&warm_count, count, RELAXED);
    store(&warm_bytes, bytes, RELAXED);
    store(&attached, of_thread.cache != &cache_none, RELAXED);
    share_budget();
    registry_recount();
}
