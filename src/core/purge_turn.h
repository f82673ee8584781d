/*
 * purge_turn.h: what became free, when the purger is to do a step for it, and whose turn it is.
 *
 * Every part that frees tells it here; the steps themselves are those of core/purge.h.
 */
#ifndef CALM_CORE_PURGE_TURN_H
#define CALM_CORE_PURGE_TURN_H

#include "base/attr.h"

struct purge_settings {
    _Atomic bool is_idle_wanted; /* unasked; else only on trim      */
    _Atomic uint32_t delay_ms;   /* between two looks, by the clock */
    _Atomic size_t cold_ms;      /* after which pages in use go to swap; 0: never */
    _Atomic size_t soft_limit;   /* of charged bytes, beyond which nothing is kept; 0: none */
    _Atomic size_t dirty_most;   /* bytes, for what is taken again                          */
    _Atomic size_t limit;        /* of charged bytes, the program's own; SIZE_MAX: none     */
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

/* All that was noted since the start: changes whenever something became free. */
size_t purge_noted(void);

/* Takes the purger's turn; or only if it is soon to be had. False: a holder that does not run has
 * it. Whoever was told true ends it; purge_turn_end(false) does nothing. */
bool purge_turn_begin(void);
bool purge_turn_begin_soon(void);
void purge_turn_end(bool has_turn);

/* As span_fork_lock() and so on. */
bool purge_fork_lock(void);
void purge_fork_unlock(void);
void purge_fork_reset(bool is_taken);

#endif
