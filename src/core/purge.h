/*
 * purge.h: returns free pages to the kernel: what a shrinking program does not take again, and what
 * it has not needed for a while. Threads that free do it, in bounded steps.
 */
#ifndef CALM_CORE_PURGE_H
#define CALM_CORE_PURGE_H

#include "core/purge_turn.h"

/*
 * One step, for a thread that freed `bytes` since its last one: purges a bounded part of what is
 * due, in short slices or whole ones. `is_sweep_due`: also checks whether a sweep over all slabs is
 * due. Not under a lock. Frees come through purge_note().
 */
void purge_some(size_t bytes, bool is_short, bool is_sweep_due);

/* Purges everything that is free now: batches, slabs, spans. Returns bytes purged. */
size_t purge_all(void);

/* Purges all that is due by bytes and by the clock, not only a step of it. Never waits for another
 * purger. */
void purge_due(void);

/* Moves free blocks in batches, the large cache, empty slabs and ended threads' caches to the
 * spans, and purges the spans. */
void purge_collect(void);

/* Implements calm_page_out_cold. */
size_t purge_cold(uint64_t age_ms);

/* Bytes purged since the start. */
size_t purge_bytes(void);

#endif
