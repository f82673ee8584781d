/*
 * pending.h: free spans that are in no list because the lists' lock was held.
 *
 * The next holder of the lock merges a few of them. Until then, threads that find the lock held
 * take spans from here. Never waits. To the lists, a pending span looks used.
 */
#ifndef CALM_MEM_PENDING_H
#define CALM_MEM_PENDING_H

#include "base/tagged_stack.h"
#include "mem/span.h"

enum { PENDING_EXACT_MAX = 32, PENDING_DOUBLINGS = 27 };
enum { PENDING_STACKS = PENDING_EXACT_MAX + PENDING_DOUBLINGS };

/* Pending spans of one owner. */
struct pending {
    struct tagged_stack stacks[2][PENDING_STACKS]; /* dirty, clean */
};

/* Adds a span that the caller holds to its owner's stacks. `state` is SPAN_DIRTY or SPAN_CLEAN. */
void pending_put(size_t unit, size_t units, unsigned state);

/* Like span_acquire(), but takes only pending spans of exactly that owner. The rest of a longer
 * span stays pending. */
struct span pending_take(size_t units, size_t align_units, unsigned owner);

/* Merges neighbours among the pending spans of an owner, so that spans do not become ever shorter.
 */
void pending_join(unsigned owner);

/* Takes a whole span of a state from any owner. */
struct span pending_pop(unsigned state);

/* Pending units. The count is too high while a thread changes a stack, and for ever if a thread
 * ends there. */
size_t pending_units(unsigned state);

#endif
