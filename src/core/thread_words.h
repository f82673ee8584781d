/*
 * thread_words.h: what the fast paths read of the calling thread, side by side: one look-up finds
 * all of it.
 */
#ifndef CALM_CORE_THREAD_WORDS_H
#define CALM_CORE_THREAD_WORDS_H

#include "base/attr.h"

struct cache;
struct rseq_area;

struct thread_words {
    /* Its own cache; an empty one that stays empty before the first use, in a thread that is
     * ending, and in one that works on its core's. */
    struct cache *cache;

    /* Its area; NULL where it has a cache of its own, or none yet. */
    struct rseq_area *area;

    /* As class_small, with its home added where the class has homes (core/home.h). */
    const uint32_t *small;

    unsigned home; /* below home_count (core/home.h) */
};

extern HIDDEN _Thread_local struct thread_words of_thread;

#endif
