/*
 * purge_turn.h: counts what becomes free, starts the purger's steps, and guards the purger's turn.
 *
 * Each part that puts blocks into bitmaps, deferred maps, spans, the large cache or a warm cache
 * calls purge_note(). A batch is counted when it is drained; blocks set aside because another
 * thread holds the depot also when they are set aside; a slab that is retired beside its blocks.
 * core/purge.h has the steps.
 */
#ifndef CALM_CORE_PURGE_TURN_H
#define CALM_CORE_PURGE_TURN_H

#include "base/attr.h"

struct purge_settings {
    _Atomic bool purges_on_free; /* frees purge; false: a trim, or a lack of memory */
    _Atomic uint32_t delay_ms;   /* between two ticks */
    _Atomic size_t cold_ms;      /* age at which pages in use go to swap; 0: never */
    _Atomic size_t soft_limit;   /* charged bytes; above it nothing is kept; 0: none */
    _Atomic size_t dirty_most;   /* dirty bytes kept for reuse */
    _Atomic size_t limit;        /* charged bytes, the lower of soft and hard; SIZE_MAX: none */
};
extern struct purge_settings purge_settings;

/*
 * Notes that `bytes` became free, in blocks of `block_bytes`, and purges what is due. Not under a
 * lock. Any thread. Cost: one atomic addition; for the thread that completes 16 KiB, which all
 * threads count together, a clock read, and kernel calls where pages are due.
 */
void purge_note(size_t bytes, size_t block_bytes);

/* Bytes freed by all threads together that make a purge step due. */
enum { PURGE_STEP_BYTES = 16 * 1024 };

/*
 * Between purge_hold() and purge_end_hold() the calling thread's notes only add up. For a change to
 * its cache: functions called for a purge (os/linux/told.h) may allocate and free. A nested pair
 * ends the hold. purge_settle() does the step that is due, if any.
 */
void purge_hold(void);
void purge_end_hold(void);
void purge_settle(void);

/* purge_turn_begin() takes the purger's turn, waiting a second at most; purge_turn_begin_soon()
 * never sleeps. False: another thread has the turn. True: the caller ends the turn.
 * purge_turn_end(false) does nothing. */
bool purge_turn_begin(void);
bool purge_turn_begin_soon(void);
void purge_turn_end(bool has_turn);

/* For the fork hooks, like span_fork_lock() and its companions. */
bool purge_fork_lock(void);
void purge_fork_unlock(void);
void purge_fork_reset(bool is_taken);

#endif
