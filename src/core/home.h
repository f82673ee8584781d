/*
 * home.h: keeps blocks that share a cache line within one home.
 *
 * Blocks smaller than two cache lines share lines. Two threads that write to blocks of one line
 * wait for each other at every write, whoever allocated the blocks. So slabs of such classes belong
 * to a home, a small group of threads, and a thread's requests are served from its own home. The
 * home is part of the bin: a remote free returns a block to the home it came from, and free needs
 * no test. Classes that share few lines have no homes.
 *
 * Threads get homes in turn, beginning with 0. The table of home 0 is `class_small` itself, so a
 * program with one thread has no other tables. Design: docs/design/cores.md
 */
#ifndef CALM_CORE_HOME_H
#define CALM_CORE_HOME_H

#include "core/class.h"
#include "core/thread_words.h"

enum { HOME_ENTRY_BYTES = COHORT_LIMIT * CLASS_LIMIT * ENTRY_BYTES };

/* Sets home_count for `cpu_count` CPUs; 1 where cohorts are separate. While the heap starts. */
void home_start(unsigned cpu_count);

/* Constant once the heap has started; 1 before. */
extern HIDDEN unsigned home_count;

/* The next home in turn. Any thread. */
unsigned home_next(void);

/* Lets the calling thread allocate from `home`. */
void home_enter(unsigned home);

/* Whether the calling thread has entered a home. */
bool home_is_entered(void);

/* Offset of the entry for a size within a cohort, in the calling thread's home. Pre: bytes <=
 * MEDIUM_MAX. */
ALWAYS_INLINE uint32_t home_offset(size_t bytes)
{
    if (likely(bytes <= SMALL_MAX))
        return of_thread.small[(bytes + 7) >> 3];
    return class_medium[(bytes + 255) >> 8];
}

/* Offset of the entry for a class within a cohort, in the calling thread's home. */
ALWAYS_INLINE uint32_t home_class_offset(unsigned class)
{
    return class_has_homes(class) ? of_thread.small[class_facts[class].bytes >> 3]
                                  : class * ENTRY_BYTES;
}

#endif
