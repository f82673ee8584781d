/*
 * cores.c: takes per-CPU caches out of their slots and puts them back.
 *
 * A cache's state says who may take it: any thread by compare-and-swap from CACHE_SPARE or
 * CACHE_IN_SLOT to CACHE_OWNED; only the owner changes the state back. A slot changes by a sequence
 * on its own core, or from elsewhere by the owner of the cache in it, with a fence before that
 * cache is used. So a cache is in at most one slot, and the owner of a cache that is in no slot has
 * exclusive access.
 *
 * Owner: any thread, lock-free; docs/protocols/cores.md. Design: docs/design/cores.md
 */
#include "core/cores.h"

#include "core/cache.h"
#include "core/registry.h"
#include "core/shard.h"
#include "os/os.h"

enum {
    SPARES = 16, /* caches beyond one a core, for threads preempted while they own one */
    TRIES_MAX = 3,
    COOL_MAX = 64,
    WEIGHT_A_CPU = 4, /* cache weight: a working thread and an ending one */
    IDLE_WEIGHT = 2,  /* cache weight: a main thread that waits */
};

struct rseq_slot core_slots[CORES_MAX];
_Thread_local uint32_t area_is_barred;
_Atomic bool cores_are_used;

static _Thread_local bool has_joined;
static _Atomic uint32_t joined;                          /* threads, ever */
static _Thread_local struct rseq_area *area_lent;        /* the thread's area, while lent */
static struct cache *_Atomic caches[CORES_MAX + SPARES]; /* all per-CPU caches */
static _Atomic uint32_t made;                            /* how many */
static uint32_t cache_limit;
static uint32_t slot_count;
static const char *refusal = "the heap has not started";
static _Atomic bool is_stocked;

static void leave(void)
{
    area_is_barred++;
    area_lent = of_thread.area = NULL;
}

/* A signal handler may run between any two steps, and lend the thread itself. Barring comes first,
 * so that the handler does not join again. */
void cores_lend(void)
{
    if (area_is_barred == 0)
        area_lent = of_thread.area;
    area_is_barred++;
    atomic_signal_fence(memory_order_seq_cst);
    of_thread.area = NULL;
}

void cores_end_lending(void)
{
    struct rseq_area *area = area_is_barred == 1 ? area_lent : NULL;
    if (area_is_barred != 0) /* 0: a child with its own thread-local storage */
        area_is_barred--;
    atomic_signal_fence(memory_order_seq_cst);
    if (area != NULL)
        of_thread.area = area;
}

/* The calling thread's area, whether it uses per-CPU caches yet or not. */
static struct rseq_area *join(void)
{
    if (!has_joined) {
        has_joined = true;
        fetch_add(&joined, 1, RELAXED);
        area_joined = os_rseq_join(leave);
    }
    return area_joined;
}

uint32_t cores_joined(void)
{
    return load(&joined, RELAXED);
}

/* Makes threads work on per-CPU caches from now on. Until then the slots' pages stay untouched;
 * concurrent callers fill each slot once. */
static void begin_use(void)
{
    for (unsigned core = 0; core < slot_count; core++) {
        void *untouched = NULL;
        compare_swap(&core_slots[core].base, &untouched, &cache_none, RELAXED, RELAXED);
    }
    store(&cores_are_used, true, RELEASE); /* pairs with cores_join() */
}

void cores_start(enum cores_use use, unsigned core_limit)
{
    if (use == CORES_NEVER)
        refusal = "cores=never";
    else if (core_limit > CORES_MAX)
        refusal = "this machine may have more cores than CORES_MAX";
    else if (os_rseq_start() != 0)
        refusal = "no restartable sequences here";
    else
        refusal = NULL;
    if (refusal != NULL)
        return;
    slot_count = core_limit;
    cache_limit = core_limit + SPARES;
    store(&cores_are_used, false, RELAXED);
    if (use == CORES_ALWAYS)
        begin_use();
}

const char *cores_refusal(void)
{
    return refusal;
}

/* The state of a cache that the calling thread owns. One word holds state and owner, so that a fork
 * between two stores cannot mistake the owner. */
static uintptr_t owned_here(void)
{
    return (uintptr_t)&of_thread | CACHE_OWNED;
}

/* Makes a per-CPU cache, owned by the calling thread. NULL: limit reached, or no memory. */
static struct cache *add(void)
{
    uint32_t count = load(&made, ACQUIRE), taken = count + 1;
    if (count >= cache_limit || !compare_swap(&made, &count, taken, ACQ_REL, RELAXED))
        return NULL;
    struct cache *cache = registry_make(true);
    if (cache == NULL) { /* release the number, unless another was taken meanwhile */
        compare_swap(&made, &taken, count, RELAXED, RELAXED);
        return NULL;
    }
    store(&cache->state, owned_here(), RELAXED);
    store(&caches[count], cache, RELEASE);
    return cache;
}

/* Makes `count` spare caches, for the first thread that works on a per-CPU cache. */
static void stock(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct cache *cache = add();
        if (cache != NULL)
            store(&cache->state, CACHE_SPARE, RELEASE);
    }
}

void cores_note_weight(size_t cache_weight, unsigned cpu_count)
{
    size_t few = (size_t)cpu_count * WEIGHT_A_CPU + IDLE_WEIGHT;
    if (refusal == NULL && cache_weight > few && !load(&cores_are_used, RELAXED))
        begin_use();
}

bool cores_join(size_t cache_weight, unsigned cpu_count)
{
    if (refusal != NULL || area_is_barred != 0)
        return false;
    if (shard_count > 1)
        join(); /* shard_here() reads its CPU */
    if (!load(&cores_are_used, ACQUIRE)) {
        cores_note_weight(cache_weight + 1, cpu_count);
        if (!load(&cores_are_used, ACQUIRE))
            return false;
    }
    if (unlikely(of_thread.area == NULL) && (of_thread.area = join()) == NULL)
        return false;
    if (unlikely(!load(&is_stocked, RELAXED)) && !exchange(&is_stocked, true, RELAXED))
        stock(cpu_count);
    return true;
}

/* Takes ownership of a spare cache. False: the cache is in a slot, or owned. */
static bool own_spare(struct cache *cache)
{
    uintptr_t state = CACHE_SPARE;
    /* K1 acquire: what the last owner wrote; pairs with K3. */
    return load(&cache->state, RELAXED) == CACHE_SPARE &&
           compare_swap(&cache->state, &state, owned_here(), ACQUIRE, RELAXED);
}

/* Takes a spare cache, or makes one. */
static struct cache *take_spare(void)
{
    uint32_t count = load(&made, ACQUIRE);
    for (uint32_t i = 0; i < count && i < cache_limit; i++) {
        struct cache *cache = load(&caches[i], ACQUIRE);
        if (cache != NULL && own_spare(cache))
            return cache;
    }
    return add();
}

struct cache *cores_take(void)
{
    struct rseq_area *area = of_thread.area;
    for (unsigned tries = 0; tries < TRIES_MAX; tries++) {
        struct cache *cache = (struct cache *)load(&core_slots[area->core].base, RELAXED);
        uintptr_t state = CACHE_IN_SLOT;
        if (cache == &cache_none ||
            !compare_swap(&cache->state, &state, owned_here(), ACQUIRE, RELAXED)) /* K1 */
            break; /* another thread took it, and does not run now */
        if (rseq_swap(area, core_slots, cache, &cache_none) >= 0) /* K2 */
            return cache;
        store(&cache->state, CACHE_IN_SLOT, RELEASE);
    }
    return take_spare();
}

void cores_return(struct cache *cache)
{
    int core = -1;
    struct rseq_area *area = of_thread.area; /* NULL: a handler lent the thread for good */
    for (unsigned tries = 0; area != NULL && tries < TRIES_MAX && core < 0; tries++)
        core = rseq_swap(area, core_slots, &cache_none, cache);
    cache->core = (uint32_t)core;
    /* K3 release: pairs with K1. */
    store(&cache->state, core >= 0 ? CACHE_IN_SLOT : CACHE_SPARE, RELEASE);
}

/* Takes ownership of a cache that has arrays, and takes it out of its slot. Sequences that began
 * before may still work on it. False: empty, or owned. */
static bool withdraw(struct cache *cache)
{
    uintptr_t state = load(&cache->state, RELAXED);
    if (state >= CACHE_OWNED ||
        !compare_swap(&cache->state, &state, owned_here(), ACQUIRE, RELAXED))
        return false;
    if (!cache_has_arrays(cache)) {
        store(&cache->state, state, RELEASE);
        return false;
    }
    void *expected = cache;
    if (state == CACHE_IN_SLOT)
        compare_swap(&core_slots[cache->core].base, &expected, &cache_none, RELAXED, RELAXED);
    return true;
}

/* Empties an owned cache that no sequence works on, and makes it spare. */
static void cool_owned(struct cache *cache)
{
    cache_empty(cache);
    registry_cool(cache);
    store(&cache->state, CACHE_SPARE, RELEASE);
}

/* Empties some caches from number `first` on, as many as justify one fence. If the kernel refuses
 * the fence, which worked at start, they stay filled and out of use. */
static void cool_some(uint32_t *first)
{
    struct cache *withdrawn[COOL_MAX];
    size_t count = 0;
    for (; *first < load(&made, ACQUIRE) && count < COOL_MAX; (*first)++) {
        struct cache *cache = load(&caches[*first], ACQUIRE);
        if (cache != NULL && withdraw(cache))
            withdrawn[count++] = cache;
    }
    if (count == 0 || os_counted(os_rseq_fence()) != 0)
        return;
    for (size_t i = 0; i < count; i++)
        cool_owned(withdrawn[i]);
}

/* A thread on its core took a spare cache out of the slot, so no sequence works on the cache. */
bool cores_cool_spare(void)
{
    for (uint32_t i = 0; i < load(&made, ACQUIRE) && i < cache_limit; i++) {
        struct cache *cache = load(&caches[i], ACQUIRE);
        if (cache == NULL || !cache_has_arrays(cache) || !own_spare(cache))
            continue;
        cool_owned(cache);
        return true;
    }
    return false;
}

void cores_cool(void)
{
    for (uint32_t first = 0; first < load(&made, ACQUIRE) && first < cache_limit;)
        cool_some(&first);
}

/* The core whose slot holds a cache, or -1. */
static int slot_with(const struct cache *cache)
{
    for (uint32_t core = 0; core < slot_count; core++)
        if (load(&core_slots[core].base, RELAXED) == cache)
            return (int)core;
    return -1;
}

/* A thread that was putting a cache into a slot may not have stored `core` yet. */
void cores_fork_adopt(void)
{
    for (uint32_t i = 0; i < load(&made, RELAXED); i++) {
        struct cache *cache = load(&caches[i], RELAXED);
        uintptr_t state = cache == NULL ? CACHE_SPARE : load(&cache->state, RELAXED);
        if (state < CACHE_OWNED || state == owned_here()) /* owned here: a handler forked */
            continue;
        int core = slot_with(cache);
        if (core < 0)
            registry_adopt(cache);
        cache->core = (uint32_t)core;
        store(&cache->state, core >= 0 ? CACHE_IN_SLOT : CACHE_SPARE, RELAXED);
    }
}
