/*
 * limit.h: how much memory the heap may have, and what follows from it: the limits that the spans
 * hold, and what caches, batches and dirty memory may be.
 */
#ifndef CALM_CORE_LIMIT_H
#define CALM_CORE_LIMIT_H

#include "core/above.h"

struct heap_settings;

/* Before limit_apply(): how many CPUs there are, and how many bytes the process's groups allow, or
 * SIZE_MAX. */
void limit_start(unsigned cpu_count, size_t group_bytes);

/* Puts in force what the settings and the groups say. Any thread. */
void limit_apply(const struct heap_settings *settings);

/* Reads the groups' limits again, when the settings ask for that and the last time is a second ago,
 * and puts them in force. Any thread; it waits for none. */
void limit_look(void);

/* Has `callback` told, by how many bytes, before a refusal, and when the soft limit is passed, or
 * the hard one where there is no other; NULL: nobody. */
void limit_tell(void (*callback)(size_t bytes_over));

/*
 * At the end of a request, when the thread has nothing in hand: gives back what is free, and, where
 * that is not enough, calls who is to be told. `is_refused`: the request got nothing, and what is
 * free went back before (limit_ends). Returns whether it is worth another try.
 */
bool limit_settle(bool is_refused);

#endif
