/*
 * home.h: keeps blocks that share a cache line with one home.
 *
 * Blocks below two lines share lines. Two threads that write to blocks of one line wait for each
 * other at every write, whoever allocated the blocks. So slabs of such classes belong to a home, a
 * small group of threads, and a request is met from the thread's own home. The home is part of the
 * bin: a block that another thread frees goes to the home it came from, not to who freed it, and
 * free needs no test. Classes that share few lines have no homes.
 *
 * Threads get homes in turn; the first thread's is 0, whose table is `class_small` itself, so a
 * program with one thread has no others. Design: docs/design/cores.md
 */
#ifndef CALM_CORE_HOME_H
#define CALM_CORE_HOME_H

#include "core/class.h"
#include "core/thread_words.h"

enum { HOME_ENTRY_BYTES = COHORT_LIMIT * CLASS_LIMIT * ENTRY_BYTES };

/* Says how many homes there are: as many as so many CPUs need; one where cohorts are apart. While
 * the heap starts. */
void home_start(unsigned cpu_count);

/* How many there are. Constant once the heap has started; 1 before. */
extern HIDDEN unsigned home_count;

/* The next home in turn. Any thread. */
unsigned home_next(void);

/* Lets the calling thread allocate from `home`. */
void home_enter(unsigned home);

/* Whether the calling thread has entered a home. */
bool home_is_entered(void);

/* Offset of the entry of a size's class among those of a cohort, in the calling thread's home. Pre:
 * bytes <= MEDIUM_MAX. */
ALWAYS_INLINE uint32_t home_offset(size_t bytes)
{
    if (likely(bytes <= SMALL_MAX))
        return of_thread.small[(bytes + 7) >> 3];
    return class_medium[(bytes + 255) >> 8];
}

/* The same of a class. */
ALWAYS_INLINE uint32_t home_class_offset(unsigned class)
{
    return class_has_homes(class) ? of_thread.small[class_facts[class].bytes >> 3]
                                  : class * ENTRY_BYTES;
}

#endif
