/*
 * purge.h: gives idle pages back: what was never needed during the last delay, late and in batches.
 */
#ifndef CALM_CORE_PURGE_H
#define CALM_CORE_PURGE_H

#include "base/attr.h"

struct purge_settings {
    _Atomic bool is_idle_wanted; /* by itself, through a helper thread; else only on trim */
    _Atomic uint32_t delay_ms;
};
extern struct purge_settings purge_settings;

/* Notes that `bytes` became free; starts the helper once enough has. Not under a lock. Cost: one
 * atomic addition. */
void purge_note(size_t bytes);

/* Purges everything that is free now: batches, slabs, spans. Returns bytes given back. */
size_t purge_all(void);

/* Moves what lies in batches, on shelves, in empty slabs and ended threads' caches to the spans,
 * and purges those. */
void purge_collect(void);

/* All that was noted since the start: changes whenever something became free. */
size_t purge_noted(void);

/* Bytes given back since the start. */
size_t purge_bytes(void);

/* Ends the helper and waits until it is gone, at most a second; it starts again when it is needed.
 */
void purge_helper_stop(void);

/* Around a fork in the parent: no helper is started meanwhile. */
void purge_fork_begin(void);
void purge_fork_end(void);

/* As span_fork_lock() and so on. */
bool purge_fork_lock(void);
void purge_fork_unlock(void);
void purge_fork_reset(void);

#endif
