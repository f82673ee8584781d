/*
 * span_parts.h: what span.c shares with the files that purge and unmap free spans.
 */
#ifndef CALM_MEM_SPAN_PARTS_H
#define CALM_MEM_SPAN_PARTS_H

#include "mem/refault.h"
#include "mem/span_lists.h"

extern HIDDEN struct refault_meter span_refaults;

/* Takes the span lock if it becomes free soon, and merges some pending spans. Waits up to a second
 * where memory is short. */
bool span_try_lock(void);
void span_unlock(void);

/* Lists free spans, or makes them pending if the lock is held. */
void span_put_all(const struct span *spans, size_t count);

/* Call under the lock after taking dirty units. */
void span_note_least(void);

/* Makes units that were nobody's the owner's; units of the owner stay as they are. */
void span_own(size_t unit, size_t units, unsigned owner);

/* Keeps `units` from `kept` on for an owner, out of `count` clean ones in no list, and releases the
 * others. */
void span_keep(size_t first, size_t count, size_t kept, size_t units, unsigned owner);

/* Reserves the charge of units that are not dirty while they are taken. False: the limit forbids
 * it.
 */
bool span_reserve_charge(size_t units);
void span_end_charge(size_t units);

/* Takes unmapped units, the owner's or nobody's, and maps them. `unit` 0: there are none, or the
 * kernel refuses. */
struct span span_take_unmapped(size_t units, size_t align_units, unsigned owner);

/* Maps units that were cut from an unmapped span. False: they are an unmapped span again. */
bool span_map_again(size_t unit, size_t units);

/* Unmaps clean spans, the longest of each owner first, until about `units` are unmapped. Returns
 * how many were. */
size_t span_unmap(size_t units);

#endif
