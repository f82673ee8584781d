/*
 * cores.h: caches that belong to cores: the thread that runs on a core works on the core's cache.
 *
 * The fast paths are restartable sequences (os/rseq.h) on the cache in the core's slot. Whoever
 * needs more than those takes the cache out of its slot, owns it as a thread owns its own, and puts
 * it back, into the slot of the core it runs on by then. So a thread that stops anywhere holds up
 * nobody, and nothing is to be done when it ends.
 */
#ifndef CALM_CORE_CORES_H
#define CALM_CORE_CORES_H

#include "base/check.h"
#include "core/thread_words.h"
#include "os/rseq.h"

struct cache;

enum { CORES_MAX = 1024 };

extern HIDDEN struct rseq_slot core_slots[CORES_MAX];

/* How many reasons there are that the thread has no area and gets none: calls that lent its memory
 * to a child (libc/children.c), and its end. */
extern HIDDEN _Thread_local uint32_t area_is_barred;

/* Around a call whose child may work on the calling thread's memory and thread-local storage; in
 * the child too, where that turns out to be its own. */
void cores_lend(void);
void cores_end_lending(void);

/* Which threads work on cores' caches. */
enum cores_use { CORES_AUTO, CORES_ALWAYS, CORES_NEVER };

/* Before the heap is used. Cores have numbers below `core_limit`. */
void cores_start(enum cores_use use, unsigned core_limit);

/* Why no thread works on a core's cache and none ever will; NULL when that is not so. */
const char *cores_refusal(void);

/* Tells how many threads have their own cache, once another one has, or a larger one: of threads
 * that come at the same time none finds, before it has one, that there are many. Counted in halves:
 * a thread is two, one whose cache is small is one, as little is wasted while it does not run. */
void cores_note_halves(size_t halves, unsigned cpu_count);

/* Whether the calling thread is to work on its core's cache, with so many halves that have their
 * own cache, on `cpu_count` CPUs. Joins it. Once true in AUTO, true for all. */
bool cores_join(size_t halves, unsigned cpu_count);

/* How many threads ever joined, whether they work on cores' caches yet or not. */
uint32_t cores_joined(void);

/* Whether threads that have their own cache should give it up. */
extern HIDDEN _Atomic bool cores_are_used;

/* The core's cache, or a spare one, owned by the caller until it is returned. NULL: none is to be
 * had; the caller works without. Never waits. */
struct cache *cores_take(void);
void cores_return(struct cache *cache);

/* Empties the caches of cores. Any thread; waits for nobody. One kernel call for each dozen of
 * caches that hold something, which an allow-list may not have: for a trim. */
void cores_cool(void);

/* Empties one cache that is in no core's slot and has something, without a kernel call. Any thread;
 * waits for nobody. False: there is none. */
bool cores_cool_spare(void);

/* In a fork's child: what other threads had taken is the cores' again. */
void cores_fork_adopt(void);

#endif
