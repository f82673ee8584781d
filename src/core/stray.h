/*
 * stray.h: blocks that came back while their depot was held and there was no room in batches: a bit
 * each, in a map beside their slab's.
 *
 * Giving one is one atomic step and needs no memory, so a free never waits for a depot's holder.
 * A slab that has strays is in its depot's stack of such. Design: docs/design/held.md
 */
#ifndef CALM_CORE_STRAY_H
#define CALM_CORE_STRAY_H

#include "base/tagged_stack.h"
#include "core/slab.h"

/* A depot's. */
struct strays {
    struct tagged_stack slabs; /* by their bookkeeping's number */
    _Atomic uint32_t blocks;   /* put here, less those taken from here */
};

ALWAYS_INLINE bool stray_are_any(const struct strays *strays)
{
    return unlikely((uint32_t)load(&strays->slabs.top, RELAXED) != 0);
}

/* How many blocks were put here, less those taken from here. Below zero where a slab that is in
 * this stack has strays that another depot put aside; the sum over a class's depots is no less than
 * there are. */
ALWAYS_INLINE ptrdiff_t stray_count(const struct strays *strays)
{
    return (int32_t)load(&strays->blocks, RELAXED);
}

/* Adds the caller's block of that number. False: it was one already, so it was freed twice. */
bool stray_put(struct strays *strays, struct slab *slab, unsigned block);

/* Takes at most `want` of one slab. Returns how many; 0: there are none. */
size_t stray_take(struct strays *strays, void **out, size_t want);

/* Exact for a block that no other thread is freeing. */
bool stray_is_one(const struct slab *slab, unsigned block);

#endif
