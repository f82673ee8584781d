/*
 * of_thread.h: what the fast paths ask of the calling thread itself, side by side, so that one look
 * finds where both lie.
 */
#ifndef CALM_CORE_OF_THREAD_H
#define CALM_CORE_OF_THREAD_H

#include "base/attr.h"

struct cache;

struct of_thread {
    /* The thread's own cache; cache_none, which is empty and stays so, before the first use, in a
     * thread that is ending, and in one that works on its core's. */
    struct cache *cache;
    /* As class_small, with the thread's home added where the class has homes (core/home.h). */
    const uint32_t *small;
};

extern HIDDEN _Thread_local struct of_thread of_thread;

#endif
