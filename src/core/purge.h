/*
 * purge.h: gives free pages back to the kernel: what a program that shrinks does not take again,
 * and what it has not needed for a while. Whoever frees does it, in bounded steps.
 */
#ifndef CALM_CORE_PURGE_H
#define CALM_CORE_PURGE_H

#include "core/purge_turn.h"

/*
 * A step for a thread that freed `bytes` since its last one: gives back a bounded part of what is
 * due, in short slices or whole ones; with `is_sweep_due` it looks whether all slabs are to be
 * seen. Not under a lock. Whoever frees comes through purge_note().
 */
void purge_some(size_t bytes, bool is_short, bool is_sweep_due);

/* Purges everything that is free now: batches, slabs, spans. Returns bytes given back. */
size_t purge_all(void);

/* Gives back all that is due, by bytes and by the clock, not only a step of it; without waiting for
 * another thread that does. */
void purge_due(void);

/* Moves what lies in batches, on the shelf, in empty slabs and ended threads' caches to the spans,
 * and purges those. */
void purge_collect(void);

/* As calm_page_out_cold. */
size_t purge_cold(uint64_t age_ms);

/* Bytes given back since the start. */
size_t purge_bytes(void);

#endif
