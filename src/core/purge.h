/*
 * purge.h: gives free pages back to the kernel: what a program that shrinks does not take again,
 * and what it has not needed for a while. Whoever frees does it, in bounded steps.
 */
#ifndef CALM_CORE_PURGE_H
#define CALM_CORE_PURGE_H

#include "base/attr.h"

struct purge_settings {
    _Atomic bool is_idle_wanted; /* unasked; else only on trim      */
    _Atomic uint32_t delay_ms;   /* between two looks, by the clock */
    _Atomic size_t cold_ms;      /* after which pages in use go to swap; 0: never */
    _Atomic size_t soft_limit;   /* of charged bytes, beyond which nothing is kept; 0: none */
    _Atomic size_t dirty_most;   /* for what is taken again                                 */
};
extern struct purge_settings purge_settings;

/*
 * Notes that `bytes` became free, in blocks of `block_bytes`, and gives back what is due. Not under
 * a lock. Any thread. Cost: one atomic addition; each 16 KiB, a look at the clock, and kernel calls
 * where pages are due.
 */
void purge_note(size_t bytes, size_t block_bytes);

/* So many bytes that become free are a step of the purger's. */
enum { PURGE_STEP_BYTES = 16 * 1024 };

/*
 * Between these what is noted only adds up, for a thread in the middle of a change to its cache:
 * who is told of a purge (os/linux/told.h) may allocate and free. purge_settle() does a step for
 * it, if one is due.
 */
void purge_hold(void);
void purge_end_hold(void);
void purge_settle(void);

/* Purges everything that is free now: batches, slabs, spans. Returns bytes given back. */
size_t purge_all(void);

/* Gives back all that is due, by bytes and by the clock, not only a step of it; without waiting for
 * another thread that does. */
void purge_due(void);

/* Moves what lies in batches, on the shelf, in empty slabs and ended threads' caches to the spans,
 * and purges those. */
void purge_collect(void);

/* All that was noted since the start: changes whenever something became free. */
size_t purge_noted(void);

/* Moves what lies in batches and in empty slabs to the bitmaps and the spans. */
void purge_tidy(void);

/* As calm_page_out_cold. */
size_t purge_cold(uint64_t age_ms);

/* Bytes given back since the start. */
size_t purge_bytes(void);

/* As span_fork_lock() and so on. */
bool purge_fork_lock(void);
void purge_fork_unlock(void);
void purge_fork_reset(bool is_taken);

#endif
