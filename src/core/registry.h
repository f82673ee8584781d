/*
 * registry.h: every cache ever made; caches are reused but never destroyed.
 */
#ifndef CALM_CORE_REGISTRY_H
#define CALM_CORE_REGISTRY_H

#include "base/facts.h"
#include "core/cache.h"

/* The newest cache; the others by `below`. Any thread. */
struct cache *registry_newest(void);

/* Caches made so far. */
size_t registry_count(void);

/* Makes an empty cache in CACHE_OWNED, for a thread or for cores. Waits for nobody. NULL: no
 * memory. */
struct cache *registry_make(bool is_for_cores);

/* Purges the pages of an empty cache, except the head's. Owner. */
void registry_cool(struct cache *cache);

/* In a fork's child: makes a cache that another thread owned usable; loses its blocks if its arrays
 * were changing. */
void registry_adopt(struct cache *cache);

/* Recomputes caches_budget.in_use, which a fork may have split from a cache's own count. In the
 * child, last. */
void registry_recount(void);

extern const struct watch_fact registry_facts[];

#endif
