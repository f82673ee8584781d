/*
 * span_parts.h: what span.c shares with the files that purge free spans and give their addresses
 * back.
 */
#ifndef CALM_MEM_SPAN_PARTS_H
#define CALM_MEM_SPAN_PARTS_H

#include "mem/regret.h"
#include "mem/span_lists.h"

extern HIDDEN struct regret span_in_vain;

/* Takes the spans' lock if it is free soon, and merges what came while it was not. */
bool span_try_lock(void);
void span_unlock(void);

/* Lists free spans, or has them pending where the lock is not to be had. */
void span_give(const struct span *spans, size_t count);

/* Dirty units were taken. Under the lock. */
void span_note_least(void);

/* What was nobody's is the owner's from now on. */
void span_own(size_t unit, size_t units, unsigned owner);

/* From units whose addresses were given back, the owner's or nobody's: takes and maps them. `unit`
 * 0: there are none, or the kernel refuses. */
struct span span_take_gone(size_t units, size_t align_units, unsigned owner);

/* Maps units that were cut from a span without addresses. False: they are such a span again. */
bool span_bring_back(size_t unit, size_t units);

/* Gives the addresses of clean spans back, the longest of each owner first, until as many units
 * are. Returns how many were. */
size_t span_give_up(size_t units);

#endif
