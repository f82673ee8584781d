/*
 * sampled_small.h: small sampled blocks (core/sampled.h), in caches and depots.
 */
#ifndef CALM_CORE_SAMPLED_SMALL_H
#define CALM_CORE_SAMPLED_SMALL_H

#include "core/cache.h"
#include "core/rows.h"

/* Called when a sampled block is freed, before its memory can be reused; the block came from
 * sampled_alloc(), or from heap_realloc() with a sample wanted. Set once, before the first such
 * block. */
extern void (*sampled_on_free)(void *block);

/* Called in a fork's child once its heap is whole; NULL: nothing. `number`: how many forks the
 * parent had made. */
extern void (*_Atomic sampled_on_fork)(uint32_t number);

/* Allocates a sampled block of a class. NULL: no memory. */
void *sampled_small(unsigned class);

/* Slow path of the free of a small sampled block. */
void sampled_free(void *block, unsigned bin);

/* A cache keeps one freed block of each class up to this size, for the next samples. */
enum {
    SAMPLED_KEPT_MAX = 1024,        /* bytes of a block */
    SAMPLED_KEPT_BYTES = 12 * 1024, /* bytes in a cache; at least the sum of the classes' sizes */
};

/* Flushes the sampled blocks that the cache keeps. Owner, or anyone when there is no owner. */
void sampled_drop(struct cache *cache);

/* As sampled_drop, for the calling thread's own cache, if any. */
void sampled_drop_own(void);

#endif
