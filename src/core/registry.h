/*
 * registry.h: every cache that was ever made; they are reused but never unmade.
 */
#ifndef CALM_CORE_REGISTRY_H
#define CALM_CORE_REGISTRY_H

#include "base/facts.h"
#include "core/cache.h"

/* The newest cache; the others by `below`. Any thread. */
struct cache *registry_newest(void);

/* How many there are. */
size_t registry_count(void);

/* An empty cache, in CACHE_OWNED, for threads or for cores. Waits for nobody. NULL: no memory. */
struct cache *registry_make(bool is_for_cores);

/* Gives back the pages of an empty cache, all but its head's. Its owner. */
void registry_cool(struct cache *cache);

/* In a fork's child: makes a cache usable that another thread owned, or loses what it held. */
void registry_adopt(struct cache *cache);

/* What a fork between a cache's own count and the common one left wrong. In the child, last. */
void registry_recount(void);

extern const struct watch_fact registry_facts[];

#endif
