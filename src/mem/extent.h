/*
 * extent.h: a range of addresses of its own that grows in place.
 *
 *     | guard | committed, readable and writable | reserved | guard |
 *
 * Each lies at a random place, far from all others, so that no distance between two is known. Only
 * what is committed and the guards are reserved, as limits count what is. The front of what is
 * committed only moves up, in steps, so that an extent is three mappings however large it grows.
 */
#ifndef CALM_MEM_EXTENT_H
#define CALM_MEM_EXTENT_H

#include "base/atomic.h"
#include "base/attr.h"

struct extent {
    char *start;              /* behind the first guard                                    */
    size_t guard;             /* bytes of each guard                                       */
    size_t most;              /* bytes that it may grow to                                 */
    _Atomic size_t reserved;  /* bytes from start that are ours, the guard behind included */
    _Atomic size_t committed; /* bytes from start that are readable and writable           */
};

struct extent_plan {
    size_t guard;     /* bytes of each guard, whole pages                                        */
    size_t first;     /* bytes to commit at once                                                 */
    size_t most;      /* bytes that it may grow to                                               */
    size_t room;      /* bytes to reserve where no place with room behind it can be had          */
    bool is_heap;     /* the heap, which has terabytes behind it                                 */
    const char *name; /* for /proc/PID/maps; NULL for one that is made after the process started */
};

/* Makes an extent. Returns 0 or -ENOMEM. */
int extent_make(struct extent *extent, const struct extent_plan *plan);

/* Makes an extent of a table that never grows. Returns 0 or -ENOMEM. */
int extent_make_fixed(struct extent *extent, size_t bytes, size_t guard, const char *name);

/* Returns an extent that nobody else knows. */
void extent_release(struct extent *extent);

/* Moves the front up to at least `needed` bytes and at most a `step` beyond. Any thread, which
 * waits for none. 0 or -ENOMEM. */
int extent_commit(struct extent *extent, size_t needed, size_t step);

/* What is committed of all extents, in constant time. */
size_t extent_committed_all(void);

#endif
