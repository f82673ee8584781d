/*
 * cache_model.c: the shipped fast paths of core/cache.h, and the walk of core/cache_read.c that
 * other threads do over them.
 *
 * Nothing but the fast paths and the walk is called, so what the slow paths need stays unresolved.
 *
 * Not covered: what the machine reorders (the explorer runs all operations in one total order);
 * the slow paths (resize, flush, places that change), more than one reader or four preemptions; a
 * fork, of which snapshot.pml has one.
 */
#include "explore.h"

#include "core/cache.c"
#include "core/cache_arrays.c"
#include "core/cache_read.c"

struct region region; /* the slow paths ask it; they are not called */
bool rows_are_separate;
_Thread_local size_t limit_passed_by;
const struct above above;
struct rseq_slot core_slots[CORES_MAX];
_Atomic bool cores_are_used;
_Thread_local struct thread_words of_thread; /* no area: the thread has a cache of its own */

enum { BIN = 5, STILL = 2, BLOCKS = 8 };

uint64_t cache_mark; /* 0: no block of the model is ever written */

static uint64_t blocks[BLOCKS];
static _Alignas(4096) char memory[CACHE_BYTES];

static struct cache *owned(void)
{
    return (struct cache *)(void *)memory;
}

/* An array of seven slots with the still blocks and one more in it. */
static void begin(void)
{
    struct cache *cache = owned();
    uint32_t start = (uint32_t)align_up(offsetof(struct cache, arena),
                                        SLOT_BYTES << SLOTS_LOG2_MAX);
    struct cache_entry *entry = cache_entry_at(cache, BIN * ENTRY_BYTES);
    atomic_store(cache_slot(cache, start), NULL);
    atomic_store(&entry->first, NULL);
    atomic_store(&entry->top, start);
    entry->limit = start + ((uint32_t)SLOT_BYTES << SLOTS_LOG2_MIN) - SLOT_BYTES;
    of_thread.cache = cache;
    for (unsigned i = 0; i <= STILL; i++)
        cache_free(&blocks[i], BIN);
}

static void pop(const void *expected)
{
    if (cache_pop(BIN * ENTRY_BYTES) != expected)
        explore_fail("the newest block is not taken first");
}

static void own(void)
{
    cache_free(&blocks[4], BIN);
    pop(&blocks[4]);
    pop(&blocks[STILL]);
    cache_free(&blocks[5], BIN);
    cache_free(&blocks[STILL], BIN);
}

static void look_for_live(void)
{
    if (cache_holds(owned(), BIN, &blocks[7]))
        explore_fail("a live block was found in a cache");
}

static void end(void)
{
    if (cache_count(owned(), BIN) != STILL + 2)
        explore_fail("the owner's work is not what lies there");
}

int main(void)
{
    const struct explore_case cases[] = {
        {"cache: a live block is never found", 4, 2, begin, {own, look_for_live}, end},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        explore(&cases[i]);
    return 0;
}
