/*
 * thread.c: attaches a cache to a thread and takes it back when the thread ends.
 *
 * The C library runs our exit hook among the destructors of thread-specific data, in an order we
 * cannot know. A thread that allocates after it gets a cache again and arms the hook again, up to
 * ATTACHES_MAX times; after that it works without a cache, so nothing stays behind. A few caches of
 * ended threads wait as they are for the next threads; the others are emptied, and so are those few
 * when the purger finds them unused.
 *
 * Owner: any thread, lock-free; unused caches are in stacks (base/tagged_stack.h). Signals are
 * blocked while a cache is in no stack and no thread's: a handler that allocates would take a
 * second one, one that ends the thread would lose it, and one that forks, also where there is one
 * thread, would have a child in which it is two threads'.
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
    FAIR_MIN = 64 * 1024,         /* for each cache, however many there are                   */
    CACHES_A_CPU = 1,             /* that may be full at the same time                       */
    LARGE_CACHE = 64 * 1024,      /* bytes that it may hold: its thread counts in full       */
    UNUSED_WARM = 4,              /* caches of ended threads kept as they are                */
    WARM_BYTES = 4 * 1024 * 1024, /* that these may hold: an idle process keeps them  */
};

/* What a thread begins with. */
_Thread_local struct thread_words of_thread = {.cache = &cache_none, .small = class_small};

static struct tagged_stack warm;        /* unused caches that still hold blocks */
static struct tagged_stack cold;        /* unused caches that are empty         */
static struct cache *_Atomic inherited; /* from here down, those of `forks` before this one's */
static uint32_t forks;                  /* between this process and the first of its line */
static _Atomic unsigned warm_count;
static _Atomic size_t warm_bytes; /* what those may hold */
static _Atomic size_t attached;
static _Atomic size_t large_caches; /* of threads, or of ended ones until the next thread has it */
static _Atomic unsigned cpus = 1;
static bool is_hooked;

static _Thread_local uint8_t attaches; /* of this thread */
static _Thread_local uint8_t hands;    /* of this thread, in which there may be a cache */

/* Around what is done with a cache that is in no stack and no thread's: a handler of SIGTRAP, which
 * is never blocked, may fork there. */
static void hand_begin(void)
{
    hands++;
    atomic_signal_fence(memory_order_seq_cst);
}

static void hand_end(void)
{
    atomic_signal_fence(memory_order_seq_cst);
    hands--;
}

size_t thread_count(void)
{
    return load(&attached, RELAXED);
}

/* How many halves of a thread have a cache of their own (core/cores.h). */
static size_t halves(void)
{
    return load(&attached, RELAXED) + load(&large_caches, RELAXED);
}

void thread_weigh(struct cache *cache)
{
    bool is_large = cache->capacity_bytes >= LARGE_CACHE;
    if (is_large == cache->is_counted_large)
        return;
    cache->is_counted_large = is_large;
    fetch_add(&large_caches, is_large ? 1 : (size_t)-1, RELAXED);
    cores_note_halves(halves(), load(&cpus, RELAXED));
}

static void share(size_t threads)
{
    struct cache_budget *budget = &caches_budget;
    size_t each = size_min(load(&budget->each, RELAXED),
                           load(&budget->all, RELAXED) / size_max(threads, 1));
    atomic_store(&budget->fair, size_max(each, FAIR_MIN));
}

/* What each thread has however much the others hold. Whoever stores last has looked afterwards
 * whether the number is still the same. */
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

/* Whether a thread of the parent's had it, and nobody has since. */
static bool is_inherited(const struct cache *cache)
{
    return !cache->is_for_cores && cache->forks != forks;
}

static struct cache *inherited_pop(void)
{
    struct cache *cache = load(&inherited, RELAXED);
    while (cache != NULL) { /* each turn passes one by, or is another thread's progress */
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

/* Gives the calling thread a cache of its own. Signals are blocked. */
static struct cache *attach_quietly(void)
{
    struct cache *cache = warm_pop();
    if (cache == NULL)
        cache = unused_pop(&cold);
    if (cache == NULL && (cache = registry_make(false)) != NULL)
        cache->forks = forks;
    if (cache == NULL)
        return NULL;
    of_thread.cache = cache; /* a handler that forks finds it spare, or this thread's */
    store(&cache->state, CACHE_OWNED, RELAXED);
    atomic_fetch_add(&attached, 1);
    thread_weigh(cache);
    cores_note_halves(halves(), load(&cpus, RELAXED));
    share_budget();
    return cache;
}

static struct cache *attach(void)
{
    uint64_t signals;
    if (attaches >= ATTACHES_MAX || hands != 0) /* or a handler came while one was taken */
        return NULL;
    bool is_quiet = os_signals_block(&signals);
    hand_begin();
    struct cache *cache = attach_quietly();
    hand_end();
    if (is_quiet)
        os_signals_restore(signals);
    if (cache == NULL)
        return NULL;
    home_enter(cache->home);
    if (is_hooked) {
        attaches++;
        os_thread_exit_arm(cache);
    }
    return cache;
}

/* Empties a cache that nobody else can see, and puts it where the next thread finds it. Signals are
 * blocked: a handler that forks would find it in no stack. */
static void retire(struct cache *cache)
{
    cache_empty(cache);
    registry_cool(cache);
    unused_push(&cold, cache);
}

/* Takes the thread's cache from it, and keeps a few as they are, blocks and all, for the threads
 * that come next, unless those work on cores' caches. Signals are blocked. Returns whether it is
 * kept. */
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

/* Whether what an ended thread's cache holds would only pin the pages of a heap that shrank. */
static bool is_mostly_free(void)
{
    size_t bytes = depot_free_bytes();
    return bytes > WARM_BYTES && bytes > depot_slab_bytes() / 2;
}

/* Those that are not kept are emptied. Where no two threads are left to hand blocks to each other,
 * what they handed over goes to the bitmaps. */
static void detach(struct cache *cache)
{
    uint64_t signals;
    size_t capacity = cache->capacity_bytes;
    bool is_quiet = os_signals_block(&signals);
    hand_begin();
    bool is_kept = detach_quietly(cache);
    if (!is_kept)
        retire(cache);
    hand_end();
    if (is_quiet)
        os_signals_restore(signals);
    if (is_kept)
        purge_note(capacity, 0);
    bool is_last = load(&attached, RELAXED) <= 1 && !load(&cores_are_used, RELAXED);
    while (is_last && is_mostly_free() && thread_cool_one())
        continue;
    if (is_last)
        depot_tidy_all();
    purge_settle();
}

bool thread_cool_one(void)
{
    uint64_t signals;
    if (load(&warm_count, RELAXED) == 0)
        return false;
    bool is_quiet = os_signals_block(&signals);
    hand_begin();
    struct cache *cache = warm_pop();
    if (cache != NULL)
        retire(cache);
    hand_end();
    if (is_quiet)
        os_signals_restore(signals);
    return cache != NULL;
}

/* A thread that has a cache of its own gives it up where cores' caches are used. */
static void give_up(void)
{
    struct cache *cache = of_thread.cache;
    if (cache == &cache_none)
        return;
    hand_begin();
    of_thread.cache = &cache_none; /* first: the C library may come back for memory */
    if (is_hooked) {
        attaches = 0; /* it is not the thread's end */
        os_thread_exit_arm(NULL);
    }
    detach(cache);
    hand_end();
}

struct cache *thread_cache(void)
{
    if (!above.start())
        return NULL;
    if (cores_join(halves(), load(&cpus, RELAXED))) {
        give_up();
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

/* `value` may be what another thread left that ended: where no C library runs a hook at its end, a
 * thread that lives on does. */
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

/* Those in a stack are this process's. Counts them and what they may hold. */
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

/* Whether another thread than the calling one ever had a cache, or worked on a core's. */
static bool others_are_seen(void)
{
    for (struct cache *cache = registry_newest(); cache != NULL; cache = cache->below)
        if (cache != of_thread.cache && !cache->is_for_cores)
            return true;
    return cores_joined() > 1;
}

/*
 * A cache that is in no stack was a thread's, or in the hand of one that took it or put it back.
 * Where that may be the child's own thread, which goes on with it, they all stay out of use. The
 * others wait as they are, blocks and all, whatever their number: they are mended when a thread or
 * the purger takes one, for a child that soon runs another program needs none, and every page of
 * theirs that is written here is copied.
 */
void thread_fork_adopt(bool was_alone)
{
    struct cache *newest = registry_newest();
    /* A thread that the C library does not know shows by its cache, once it has one. */
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
    if (hands != 0)
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
