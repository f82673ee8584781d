/*
 * limit.h: the heap's memory limits and what follows from them: the limits that spans enforce, and
 * the bounds of caches, batches and dirty memory.
 */
#ifndef CALM_CORE_LIMIT_H
#define CALM_CORE_LIMIT_H

#include "core/above.h"

struct heap_settings;

/* Called before limit_apply() with the number of CPUs and the cgroups' limit in bytes, or SIZE_MAX.
 */
void limit_start(unsigned cpu_count, size_t group_bytes);

/* Applies the limits of the settings and the cgroups. Any thread. */
void limit_apply(const struct heap_settings *settings);

/* Rereads and applies the cgroups' limits, if the settings ask for that and the last time is a
 * second ago. Any thread; never waits. */
void limit_reread(void);

/* Sets the callback for memory pressure: called with the bytes over the limit before a refusal, and
 * when the lower of the soft and the hard limit is passed. NULL: none. */
void limit_on_over(void (*callback)(size_t bytes_over));

/*
 * At the end of a request, when the thread has nothing in hand. With a callback: purges what is
 * free, and calls the callback if that is not enough. `is_refused`: the request failed, and what is
 * free was purged before (limit_should_retry). Returns whether a retry is worth it.
 */
bool limit_settle(bool is_refused);

#endif
