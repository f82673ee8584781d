/*
 * thread.h: which caches exist, which thread has which, and what happens when a thread ends.
 */
#ifndef CALM_CORE_THREAD_H
#define CALM_CORE_THREAD_H

#include "core/cache.h"

/* The cache the calling thread works on when it has none of its own, or should have none: its
 * core's, taken until it is returned (core/cores.h), or from now on its own. NULL: no memory, or
 * the thread is past its end; it works without one then. */
struct cache *thread_cache(void);

/* Installs the hook for thread exit; from the library's constructor. */
void thread_start(void);

/* Empties the calling thread's own cache, or its core's. Waits for nobody. */
void thread_empty_cache(void);

/* Empties one cache that an ended thread left warm. False: there is none. */
bool thread_cool_one(void);

/* Counts the calling thread's own cache as large, or no longer, by what it may hold. */
void thread_weigh(struct cache *cache);

/* Threads that have a cache of their own. */
size_t thread_count(void);

/* Sets how much a cache may hold at most: all together as much for each CPU, and at most
 * `bytes_all`; and each thread its fair share of that, beside it. */
void thread_set_budget(size_t bytes_each, size_t bytes_all, unsigned cpu_count);

/* What all caches may hold at most, with as many as there are now. */
size_t thread_cache_bytes_limit(void);

/* In the child: the caches of threads that do not exist here are emptied for reuse. After all other
 * locks are reset. Whether the parent had one thread before the fork, as the C library knows. */
void thread_fork_adopt(bool was_alone);

#endif
