/*
 * sampled_small.h: sampled blocks (core/sampled.h) that are small: how a cache and a depot have
 * them.
 */
#ifndef CALM_CORE_SAMPLED_SMALL_H
#define CALM_CORE_SAMPLED_SMALL_H

#include "core/cache.h"
#include "core/rows.h"

/* Called with a block that sampled_alloc gave, or heap_realloc with a sample wanted, before its
 * memory can be handed out again. Set before the first such block; stays. */
extern void (*sampled_on_free)(void *block);

/* Allocates a sampled block of a class. NULL: no memory. */
void *sampled_small(unsigned class);

/* The slow half of the free of a small one. */
void sampled_free(void *block, unsigned bin);

/* Freed ones that a cache keeps for the next samples: one of each class, up to so many bytes. */
enum {
    SAMPLED_KEPT_MAX = 1024,        /* a block */
    SAMPLED_KEPT_BYTES = 12 * 1024, /* all of a cache's; no less than the classes' sum */
};

/* Gives back those that the cache keeps. Owner, or when nobody owns it. */
void sampled_drop(struct cache *cache);

/* As sampled_drop, of the calling thread's cache, if it has one. */
void sampled_drop_own(void);

#endif
