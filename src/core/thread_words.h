/*
 * thread_words.h: the words that fast paths read of the calling thread, side by side, so that one
 * look-up of thread-local storage finds all.
 */
#ifndef CALM_CORE_THREAD_WORDS_H
#define CALM_CORE_THREAD_WORDS_H

#include "base/attr.h"

struct cache;
struct rseq_area;

struct thread_words {
    /* Its own cache. cache_none before the first use, in a thread that is ending, and in one that
     * works on per-CPU caches. */
    struct cache *cache;

    /* Its restartable-sequence area. NULL where it has a cache of its own, or none yet. */
    struct rseq_area *area;

    /* class_small, with the home's offset added where the class has homes (core/home.h). */
    const uint32_t *small;

    unsigned home; /* below home_count (core/home.h) */
};

extern HIDDEN _Thread_local struct thread_words of_thread;

#endif
