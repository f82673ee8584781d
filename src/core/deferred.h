/*
 * deferred.h: deferred frees: blocks freed while their depot was held and its batches were full.
 * Each is a bit in a second map of its slab.
 *
 * A deferred free is a few atomic steps and needs no memory, so a free never waits for a depot's
 * holder. A slab with deferred frees is in a stack of its depot. Design: docs/design/held.md
 */
#ifndef CALM_CORE_DEFERRED_H
#define CALM_CORE_DEFERRED_H

#include "base/tagged_stack.h"
#include "core/slab.h"

/* A depot's deferred frees. */
struct deferred {
    struct tagged_stack slabs; /* by number of their metadata */
    _Atomic uint32_t blocks;   /* put here, less those taken from here */
};

ALWAYS_INLINE bool deferred_any(const struct deferred *deferred)
{
    return unlikely((uint32_t)load(&deferred->slabs.top, RELAXED) != 0);
}

/* Blocks put here less blocks taken from here. Negative when a slab in this stack has deferred
 * frees that another depot put; the sum over a class's depots is never too low. */
ALWAYS_INLINE ptrdiff_t deferred_count(const struct deferred *deferred)
{
    return (int32_t)load(&deferred->blocks, RELAXED);
}

/* Defers the free of the slab's block number `block`. False: it is deferred already, so it was
 * freed twice. */
bool deferred_put(struct deferred *deferred, struct slab *slab, unsigned block);

/* Takes at most `want` blocks of one slab. Returns how many; 0: none. */
size_t deferred_take(struct deferred *deferred, void **out, size_t want);

/* Whether the block's free is deferred. Exact for a block that no other thread is freeing. */
bool deferred_holds(const struct slab *slab, unsigned block);

#endif
