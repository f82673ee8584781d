/*
 * cores.h: per-CPU caches: a thread works on the cache in the slot of the core it runs on.
 *
 * The fast paths are restartable sequences (os/rseq.h) on that cache. A thread that needs more
 * takes the cache out of its slot, owns it like its own cache, and puts it back into the slot of
 * the core it then runs on. So a thread that stops anywhere delays no other, and its end needs no
 * work.
 */
#ifndef CALM_CORE_CORES_H
#define CALM_CORE_CORES_H

#include "base/check.h"
#include "core/thread_words.h"
#include "os/rseq.h"

struct cache;

enum { CORES_MAX = 1024 };

extern HIDDEN struct rseq_slot core_slots[CORES_MAX];

/* Number of reasons why the thread may not have an area: calls that lent its memory to a child
 * (libc/children.c), and its end. */
extern HIDDEN _Thread_local uint32_t area_is_barred;

/* Around a call whose child may run on the calling thread's memory and thread-local storage. In the
 * child too, where the storage turns out to be its own. */
void cores_lend(void);
void cores_end_lending(void);

/* When threads work on per-CPU caches. */
enum cores_use { CORES_AUTO, CORES_ALWAYS, CORES_NEVER };

/* Before the heap is used. Cores are numbered below `core_limit`. */
void cores_start(enum cores_use use, unsigned core_limit);

/* Why no thread will ever work on a per-CPU cache. NULL: threads may. */
const char *cores_refusal(void);

/* Called after a thread got a cache of its own, or more capacity; begins the use of per-CPU caches
 * if the threads' cache weight is too high. Not called before, as threads that come at the same
 * time would each see few. A thread weighs 2, with a cache of low capacity 1: that wastes little
 * while the thread does not run. */
void cores_note_weight(size_t cache_weight, unsigned cpu_count);

/* Whether the calling thread is to work on per-CPU caches, given the cache weight of all threads
 * and the number of CPUs. Joins the thread. In AUTO, once true for one thread, true for all. */
bool cores_join(size_t cache_weight, unsigned cpu_count);

/* How many threads ever joined, whether they use per-CPU caches yet or not. */
uint32_t cores_joined(void);

/* Whether threads are to give up their own caches. */
extern HIDDEN _Atomic bool cores_are_used;

/* Takes the per-CPU cache, or a spare one; the caller owns it until cores_return(). NULL: there is
 * none; the caller works without. Never waits. */
struct cache *cores_take(void);
void cores_return(struct cache *cache);

/* Empties all per-CPU caches. Any thread; waits for nobody. For a trim: needs os_rseq_fence() once
 * for each 64 caches that hold blocks, which a seccomp filter may refuse. */
void cores_cool(void);

/* Empties one spare cache that holds blocks, without a fence. Any thread; waits for nobody. False:
 * there is none. */
bool cores_cool_spare(void);

/* In a fork's child: reclaims the caches that other threads owned. */
void cores_fork_adopt(void);

#endif
