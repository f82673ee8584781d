/*
 * cores_model.c: the shipped core/cores.c, with the fast and slow paths of core/cache.h and
 * core/cache.c, on two cores.
 *
 * Sequences are those of shim/cores. At each step a thread may be moved to the other
 * core, or stop for ever, as often as the case allows. The depot is a set of blocks, the registry
 * a few pieces of memory.
 *
 * Checked at every step that could break it: a block is handed out once; no sequence changes a
 * cache that its owner has to himself; a cache goes into one slot only. After every schedule: each
 * block is in one place, each cache's state says where it is.
 *
 * Not covered: what the machine reorders (the explorer runs all operations in one total order);
 * the instructions of a sequence, for which shim/cores stands; more than two cores, three threads
 * or three preemptions.
 */
#include "explore.h"

/* The threads are stacks of one real thread: what each has of its own is found by its number. */
struct thread_words;
struct thread_words *words_place(void);
#define _Thread_local
#define of_thread (*words_place())
#include "core/cache.c"
#include "core/cache_arrays.c"
#include "core/cache_read.c"
#include "core/cores.c"

bool rows_are_separate;
_Thread_local size_t limit_passed_by;
_Thread_local struct rseq_area *area_joined;
_Atomic uint32_t depot_tick;
#undef _Thread_local

enum {
    BIN = 5,
    OFFSET = BIN * ENTRY_BYTES,
    CORES = 2,
    CACHES = 4,
    BLOCKS = 16,
    HELD_FIRST = 8, /* thread i begins with block HELD_FIRST + i */
    REFILL = 2,     /* blocks the depot gives at once, so that schedules are short */
    ARENA_BYTES = 2 * SLOT_BYTES << SLOTS_LOG2_MAX, /* of a cache that the model uses */
};

enum place { IN_DEPOT, IN_A_CACHE, HELD };

struct region region;
_Atomic uint64_t os_failed_calls;
unsigned shard_count = 1;

uint64_t cache_mark; /* 0: no block of the model is ever written */

static struct chunk_entry map[1];
static _Alignas(CHUNK_BYTES) uint64_t blocks[BLOCKS];
static enum place places[BLOCKS];
static void *held[EXPLORE_THREADS_MAX];
static const void *live;
static struct cache *owned[EXPLORE_THREADS_MAX]; /* from its take to the end of the request */
static struct rseq_area areas[EXPLORE_THREADS_MAX];
static struct thread_words words_of[EXPLORE_THREADS_MAX];
static bool is_aborted[EXPLORE_THREADS_MAX]; /* since the thread's newest sequence began */
static _Alignas(4096) char memory[CACHES][CACHE_BYTES];
static unsigned memory_used, memory_limit;
static unsigned moves_left, stops_left;
static unsigned movable, stoppable; /* threads that may be, as bits */
static bool has_stopped;
static unsigned forks_left;         /* by thread 0, wherever it is: from a signal handler */
static bool is_forking, has_forked; /* thread 1 is the parent's, 2 the child's */

/* How often the cache is in a slot. */
static unsigned slots_with(const void *cache)
{
    unsigned count = 0;
    for (unsigned core = 0; core < CORES; core++)
        count += atomic_load(&core_slots[core].base) == cache;
    return count;
}

struct thread_words *words_place(void)
{
    return &words_of[explore_self()];
}

uint32_t model_sequence_begins(const struct rseq_area *area)
{
    explore_point();
    is_aborted[explore_self()] = false;
    return area->core;
}

bool model_sequence_goes_on(void)
{
    explore_point();
    return !is_aborted[explore_self()];
}

void model_commits_in(void *base)
{
    struct cache *cache = base;
    if (atomic_load(&cache->edits) != 0)
        explore_fail("a sequence changed a cache that its owner was changing");
    for (unsigned i = 0; i < EXPLORE_THREADS_MAX; i++)
        if (owned[i] == cache && slots_with(cache) == 0)
            explore_fail("a sequence changed a cache that its owner has to himself");
}

void model_commits_slot(void *desired)
{
    if (desired != &cache_none && slots_with(desired) > 0)
        explore_fail("a cache is in two slots");
}

void model_slot_is_changed(void)
{
    explore_point();
}

/* The rest of the library, as far as caches need it. */

int os_rseq_start(void)
{
    return 0;
}

/* Reaches one core after the other. */
struct rseq_area *os_rseq_join(void (*on_leave)(void))
{
    (void)on_leave;
    return &areas[0]; /* asked once, at the start; begin_with() deals them out */
}

int os_rseq_fence(void)
{
    for (unsigned i = 0; i < EXPLORE_THREADS_MAX; i++) {
        explore_point();
        is_aborted[i] = true;
    }
    return 0;
}

static bool start(void)
{
    return true;
}

const struct above above = {.start = start};

struct cache *registry_make(bool is_for_cores)
{
    if (memory_used == memory_limit)
        return NULL;
    struct cache *cache = (struct cache *)(void *)memory[memory_used++];
    cache->arena_used = offsetof(struct cache, arena);
    cache->is_for_cores = is_for_cores;
    atomic_store(&cache->state, CACHE_OWNED);
    return cache;
}

static void clear_arrays(struct cache *cache)
{
    __builtin_memset((void *)&cache->rows[bin_row(BIN)], 0, sizeof cache->rows[0]);
    __builtin_memset(cache->arena, 0, ARENA_BYTES);
}

void registry_cool(struct cache *cache)
{
    explore_point();
    clear_arrays(cache);
    cache->arena_used = offsetof(struct cache, arena);
    __builtin_memset(cache->free_arrays, 0, sizeof cache->free_arrays);
}

/* As the real one: what its owner was changing is forgotten. */
void registry_adopt(struct cache *cache)
{
    if (atomic_load(&cache->edits) == 0)
        return;
    clear_arrays(cache);
    __builtin_memset(cache->used_rows, 0, sizeof cache->used_rows);
    atomic_store(&cache->edits, 0);
}

static enum place *place_of(const void *block)
{
    return &places[(const uint64_t *)block - blocks];
}

size_t depot_slab_bytes(void)
{
    return 0; /* the case's budget is less than what a cache may have then */
}

bool depot_is_shared(unsigned bin)
{
    (void)bin;
    return false;
}

void depot_flush(unsigned bin, void **given, size_t count, uint32_t user)
{
    (void)bin, (void)user;
    explore_point();
    for (size_t i = 0; i < count; i++) {
        if (*place_of(given[i]) != IN_A_CACHE)
            explore_fail("a block that was not free came to the depot");
        *place_of(given[i]) = IN_DEPOT;
    }
}

size_t depot_refill(unsigned bin, void **out, size_t want, uint32_t user)
{
    (void)bin, (void)user;
    explore_point();
    size_t count = 0;
    for (unsigned i = 0; i < BLOCKS && count < size_min(want, REFILL); i++)
        if (places[i] == IN_DEPOT) {
            places[i] = IN_A_CACHE;
            out[count++] = &blocks[i];
        }
    return count;
}

/* As core/thread.c has it for a thread that works on its core's cache. */
struct cache *thread_cache(void)
{
    struct cache *cache = cores_take();
    for (unsigned i = 0; cache != NULL && i < EXPLORE_THREADS_MAX; i++)
        if (owned[i] == cache)
            explore_fail("two threads own a cache");
    if (cache != NULL && slots_with(cache) > 0)
        explore_fail("a cache was taken, and is in a slot");
    owned[explore_self()] = cache;
    return cache;
}

/* What a thread does with blocks. */

static void note_taken(void *block)
{
    owned[explore_self()] = NULL;
    if (block != NULL && *place_of(block) != IN_A_CACHE)
        explore_fail("a block was handed out twice");
    if (block != NULL)
        *place_of(block) = HELD;
    held[explore_self()] = block;
}

static void *note_given(void)
{
    void *block = held[explore_self()];
    held[explore_self()] = NULL;
    if (block != NULL)
        *place_of(block) = IN_A_CACHE;
    return block;
}

static void allocate_fast(void)
{
    note_taken(cache_pop(OFFSET));
}

static void allocate(void)
{
    note_taken(cache_alloc(OFFSET));
}

static void allocate_slow(void)
{
    note_taken(cache_alloc_slow(OFFSET));
}

static void release(void)
{
    void *block = note_given();
    if (block != NULL)
        cache_free(block, BIN);
    owned[explore_self()] = NULL;
}

static void release_slow(void)
{
    void *block = note_given();
    if (block != NULL)
        cache_free_slow(block);
    owned[explore_self()] = NULL;
}

static void release_allocate_fast(void)
{
    release();
    allocate_fast();
}

static void allocate_release(void)
{
    release();
    allocate();
    release();
}

static void slow_release_allocate(void)
{
    release_slow();
    allocate_slow();
}

/* No block has a mark. */
bool cache_unmark(void *block, unsigned bin)
{
    (void)block;
    (void)bin;
    return true;
}

/* Nothing is purged. */
void purge_hold(void) {}

void purge_end_hold(void) {}

void purge_settle(void) {}

/* The block that was taken when the run began, and whose pointer still lies above the top. */
static void look_for_live(void)
{
    if (cache_holds(atomic_load(&caches[0]), BIN, live))
        explore_fail("a live block was found in a cache");
}

static void cool(void)
{
    cores_cool();
}

static void cool_twice(void)
{
    cool();
    cool();
}

static void only_in_child(void)
{
    if (!has_forked)
        return;
    slow_release_allocate();
    cool();
}

/* The cores. */

static void move(void)
{
    struct rseq_area *area = &areas[explore_self()];
    moves_left--;
    area->core = 1 - area->core;
    is_aborted[explore_self()] = true;
}

/* Whether this thread goes on where it was, elsewhere, or never; then it is the one that runs on
 * its core. */
static void step(void)
{
    unsigned self = explore_self();
    if (self == 1 && is_forking)
        explore_stop();
    if (forks_left > 0 && self == 0 && explore_pick(2) == 1) {
        forks_left = 0;
        is_forking = has_stopped = is_aborted[0] = true;
        cores_fork_adopt();
        owned[1] = NULL;
        has_forked = true;
    }
    unsigned moves = moves_left > 0 && (movable >> self & 1) != 0;
    unsigned stops = stops_left > 0 && (stoppable >> self & 1) != 0;
    unsigned way = moves + stops > 0 ? explore_pick(1 + moves + stops) : 0;
    if (way > 0 && way == moves)
        move();
    if (way > moves) {
        stops_left--;
        has_stopped = true;
        explore_stop();
    }
    for (unsigned i = 0; i < EXPLORE_THREADS_MAX; i++)
        if (i != self && areas[i].core == areas[self].core)
            is_aborted[i] = true;
}

/* Caches of both cores, with so many blocks. */
static void begin_with(unsigned in_first, unsigned in_second)
{
    for (unsigned i = 0; i < CACHES; i++) {
        struct cache *cache = (struct cache *)(void *)memory[i];
        __builtin_memset((void *)&cache->below, 0,
                         offsetof(struct cache, arena) - offsetof(struct cache, below));
        clear_arrays(cache);
    }
    caches_budget = (struct cache_budget){
        .each = BLOCKS_FIRST * bin_bytes(BIN), .all = SIZE_MAX, .fair = SIZE_MAX};
    __builtin_memset((void *)caches, 0, sizeof caches);
    atomic_store(&made, 0);
    memory_used = 0;
    memory_limit = CACHES;
    moves_left = stops_left = movable = stoppable = 0;
    has_stopped = is_forking = has_forked = false;
    forks_left = 0;
    region.base = (char *)blocks;
    region.map = map;
    atomic_store(&map[0].bin, BIN);
    for (unsigned core = 0; core < CORES; core++)
        atomic_store(&core_slots[core].base, NULL);
    cores_start(CORES_ALWAYS, CORES);
    for (unsigned i = 0; i < BLOCKS; i++)
        places[i] = i < HELD_FIRST ? IN_DEPOT : HELD;
    for (unsigned i = 0; i < EXPLORE_THREADS_MAX; i++) {
        owned[i] = NULL;
        words_of[i] = (struct thread_words){.cache = &cache_none, .area = &areas[i]};
    }
    for (unsigned i = 0; i < in_first + in_second; i++) {
        areas[0].core = i >= in_first;
        places[i] = HELD;
        held[0] = &blocks[i];
        release();
    }
    for (unsigned i = 0; i < EXPLORE_THREADS_MAX; i++) {
        held[i] = &blocks[HELD_FIRST + i];
        areas[i] = (struct rseq_area){.core = 0};
    }
}

static void begin_on_one_core(void)
{
    begin_with(2, 0);
}

static void begin_with_live(void)
{
    begin_with(2, 0);
    live = cache_pop(OFFSET);
    *place_of(live) = HELD;
    areas[1].core = 1;
}

static void begin_empty(void)
{
    begin_with(0, 0);
}

static void begin_full(void)
{
    begin_with(BLOCKS_FIRST, 0);
}

static void begin_with_room_to_grow(void)
{
    begin_with(BLOCKS_FIRST, 0);
    atomic_store(&caches_budget.each, SIZE_MAX);
}

static void begin_moving(void)
{
    begin_with(2, 1);
    areas[1].core = 1;
    movable = 1;
    moves_left = 2;
}

static void begin_moving_once(void)
{
    begin_moving();
    moves_left = 1;
}

static void begin_both_moving(void)
{
    begin_moving();
    movable = 3;
}

static void begin_cooling(void)
{
    begin_with(2, 0);
    areas[2].core = 1;
}

/* Thread 1 cools from the other core. */
static void begin_cooling_two(void)
{
    begin_with(2, 0);
    areas[1].core = 1;
}

static void begin_cooling_moving(void)
{
    begin_with(2, 1);
    areas[1].core = 1;
    movable = 1;
    moves_left = 1;
}

static void begin_stopping(void)
{
    begin_cooling_two();
    stoppable = 3;
    stops_left = 1;
}

static void begin_stopping_on_one_core(void)
{
    begin_with(2, 0);
    memory_limit = 1;
    stoppable = 1;
    stops_left = 1;
}

static void begin_forking(void)
{
    begin_with(2, 0);
    areas[2].core = 1;
    forks_left = 1;
}

/* Thread 1 puts caches into the slot of another core than the one they were made on. */
static void begin_forking_apart(void)
{
    begin_forking();
    areas[1].core = 1;
}

/* Counts what lies in the cache's array, from its NULL up. */
static void walk_array(struct cache *cache, unsigned *met)
{
    struct cache_entry *entry = cache_entry_at(cache, OFFSET);
    struct array array = array_of(entry->limit);
    uint32_t top = atomic_load(&entry->top);
    if (array.blocks == 0 ? top != 0
                          : top < array.start || top > array.start + array.blocks * SLOT_BYTES)
        explore_fail("an entry's top is outside of its array");
    if (atomic_load(cache_slot(cache, array.start)) != NULL)
        explore_fail("no NULL lies below the oldest block");
    for (uint32_t at = array.start + SLOT_BYTES; at <= top; at += SLOT_BYTES) {
        size_t block = (size_t)((uint64_t *)atomic_load(cache_slot(cache, at)) - blocks);
        if (block >= BLOCKS)
            explore_fail("what lies in an array is no block");
        met[block]++;
    }
}

/* A cache that a stopped thread owns is as it left it. */
static void check_cache(struct cache *cache, unsigned *met)
{
    uintptr_t state = atomic_load(&cache->state);
    unsigned slots = slots_with(cache);
    if (slots > 1)
        explore_fail("a cache is in two slots");
    if (state >= CACHE_OWNED && (has_forked || !has_stopped))
        explore_fail("a cache is owned, and nobody runs");
    if (state == CACHE_SPARE && slots != 0)
        explore_fail("a spare cache is in a slot");
    if (state == CACHE_IN_SLOT &&
        (cache->core >= CORES || atomic_load(&core_slots[cache->core].base) != cache))
        explore_fail("a cache is not in the slot that it says");
    if (state < CACHE_OWNED && atomic_load(&cache->edits) != 0)
        explore_fail("a cache was left half changed");
    if (state < CACHE_OWNED || slots > 0)
        walk_array(cache, met);
}

static void end(void)
{
    unsigned met[BLOCKS] = {0};
    for (unsigned i = 0; i < atomic_load(&made); i++)
        if (atomic_load(&caches[i]) != NULL)
            check_cache(atomic_load(&caches[i]), met);
    for (unsigned i = 0; i < BLOCKS; i++) {
        if (met[i] > (places[i] == IN_A_CACHE))
            explore_fail(met[i] > 1 ? "a block lies in caches twice"
                                    : "a block in use lies in a cache");
        if (met[i] == 0 && places[i] == IN_A_CACHE && !has_stopped)
            explore_fail("a block was lost");
    }
}

int main(void)
{
    const struct explore_case cases[] = {
        {"cores: slow and fast paths on one core",
         3,
         2,
         begin_on_one_core,
         {slow_release_allocate, release_allocate_fast},
         end},
        {"cores: a live block is never found",
         3,
         2,
         begin_with_live,
         {release_slow, look_for_live},
         end},
        {"cores: cooling against fast paths",
         3,
         2,
         begin_cooling_two,
         {release_allocate_fast, cool},
         end},
        {"cores: cooling against owners",
         3,
         2,
         begin_cooling_two,
         {slow_release_allocate, cool_twice},
         end},
        {"cores: an owner that moves twice",
         1,
         2,
         begin_moving,
         {slow_release_allocate, release_allocate_fast},
         end},
        {"cores: an owner that moves",
         2,
         2,
         begin_moving_once,
         {slow_release_allocate, release_allocate_fast},
         end},
        {"cores: a fork over any work, its own, too",
         1,
         3,
         begin_forking,
         {slow_release_allocate, slow_release_allocate, only_in_child},
         end},
        {"cores: a fork over work on another core",
         1,
         3,
         begin_forking_apart,
         {release_allocate_fast, slow_release_allocate, only_in_child},
         end},
        {"cores: three threads on one core",
         2,
         3,
         begin_on_one_core,
         {slow_release_allocate, release_allocate_fast, allocate_release},
         end},
        {"cores: first caches of all",
         3,
         2,
         begin_empty,
         {allocate_release, release_allocate_fast},
         end},
        {"cores: a full array against fast paths",
         3,
         2,
         begin_full,
         {release, release_allocate_fast},
         end},
        {"cores: an array that grows against fast paths",
         3,
         2,
         begin_with_room_to_grow,
         {release, release_allocate_fast},
         end},
        {"cores: two owners that move",
         1,
         2,
         begin_both_moving,
         {slow_release_allocate, allocate_release},
         end},
        {"cores: cooling against fast paths and an owner",
         2,
         3,
         begin_cooling,
         {slow_release_allocate, release_allocate_fast, cool},
         end},
        {"cores: cooling against a thread that moves",
         2,
         2,
         begin_cooling_moving,
         {slow_release_allocate, cool},
         end},
        {"cores: an owner or a cooler that stops for ever",
         2,
         2,
         begin_stopping,
         {slow_release_allocate, cool},
         end},
        {"cores: an owner that stops for ever",
         1,
         3,
         begin_stopping_on_one_core,
         {slow_release_allocate, release_allocate_fast, slow_release_allocate},
         end},
    };
    explore_each_step(step);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        explore(&cases[i]);
    return 0;
}
