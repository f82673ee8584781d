/*
 * pending.h: free spans that are in no list, because the lock of the lists was not to be had.
 *
 * Whoever has the lock next merges them, a few at a time; until then whoever finds it held takes
 * what it needs from here. Waits for nobody. To the lists such a span looks as if it were used.
 */
#ifndef CALM_MEM_PENDING_H
#define CALM_MEM_PENDING_H

#include "base/tagged_stack.h"
#include "mem/span.h"

enum { PENDING_EXACT_MAX = 32, PENDING_DOUBLINGS = 27 };
enum { PENDING_STACKS = PENDING_EXACT_MAX + PENDING_DOUBLINGS };

/* An owner's. */
struct pending {
    struct tagged_stack stacks[2][PENDING_STACKS]; /* dirty, clean */
};

/* Adds a span that the caller has, to its owner's. `state` is SPAN_DIRTY or SPAN_CLEAN. */
void pending_put(size_t unit, size_t units, unsigned state);

/* As span_acquire, of what is pending and has just that owner. The rest of a longer one stays
 * pending. */
struct span pending_take(size_t units, size_t align_units, unsigned owner);

/* Makes neighbours among some of an owner's one span each, without which there would be ever more
 * and ever shorter ones. */
void pending_join(unsigned owner);

/* Takes a span of a state, whole, whoever's it is. */
struct span pending_pop(unsigned state);

/* Units that are pending; too many while a thread is at it, and for ever if one ends there. */
size_t pending_units(unsigned state);

#endif
