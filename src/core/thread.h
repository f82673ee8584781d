/*
 * thread.h: attaches caches to threads, and detaches them when threads end.
 */
#ifndef CALM_CORE_THREAD_H
#define CALM_CORE_THREAD_H

#include "core/cache.h"

/* The cache that the calling thread is to work on, where it has no own cache or should give that
 * up: the per-CPU cache, owned until cores_return(), or a newly attached one. NULL: no memory, or
 * the thread is past its end; it works without a cache. */
struct cache *thread_cache(void);

/* Installs the hook for thread exit; from the library's constructor. */
void thread_start(void);

/* Empties the calling thread's own cache, or its per-CPU cache. Waits for nobody. */
void thread_empty_cache(void);

/* Empties one warm cache of an ended thread. False: there is none. */
bool thread_cool_one(void);

/* Updates the weight of an attached cache after its capacity changed. */
void thread_update_weight(struct cache *cache);

/* Threads with a cache of their own. */
size_t thread_count(void);

/* Sets the limits of caches_budget: `bytes_each` for a cache, that for each CPU and at most
 * `bytes_all` for all together, beside a fair share for each thread. */
void thread_set_budget(size_t bytes_each, size_t bytes_all, unsigned cpu_count);

/* The most bytes that the caches made so far may hold. */
size_t thread_cache_bytes_limit(void);

/* In the child, after all other locks are reset: lets the caches of threads that do not exist here
 * be reused. `was_alone`: the C library knew of one thread before the fork. */
void thread_fork_adopt(bool was_alone);

#endif
