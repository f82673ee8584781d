/*
 * extent.h: a separate address range that grows in place.
 *
 *     | guard | committed, readable and writable | reserved | guard |
 *
 * Each extent lies at a random address far from the others, so no distance between two extents is
 * known. Only committed bytes and guards are reserved, because limits count reserved bytes. The
 * front (the end of the committed bytes) only moves up, in steps, so an extent of any size is three
 * mappings.
 */
#ifndef CALM_MEM_EXTENT_H
#define CALM_MEM_EXTENT_H

#include "base/atomic.h"
#include "base/attr.h"

struct extent {
    char *start;              /* first byte behind the first guard                         */
    size_t guard;             /* bytes of each guard                                       */
    size_t most;              /* largest size in bytes                                     */
    _Atomic size_t reserved;  /* bytes from start that are reserved, with the second guard */
    _Atomic size_t committed; /* bytes from start that are readable and writable           */
};

struct extent_plan {
    size_t guard;     /* bytes of each guard, whole pages                           */
    size_t first;     /* bytes to commit at once                                    */
    size_t most;      /* largest size in bytes                                      */
    size_t room;      /* bytes to reserve where the kernel chooses the place        */
    bool is_heap;     /* the heap, which has terabytes behind it                    */
    const char *name; /* for /proc/PID/maps; NULL if made after the process started */
};

/* Makes an extent. Returns 0 or -ENOMEM. */
int extent_make(struct extent *extent, const struct extent_plan *plan);

/* Makes the extent of a table that never grows. Returns 0 or -ENOMEM. */
int extent_make_fixed(struct extent *extent, size_t bytes, size_t guard, const char *name);

/* Unmaps an extent that no other thread knows. */
void extent_release(struct extent *extent);

/* Moves the front to at least `needed` bytes and at most `step` beyond. Any thread; never waits.
 * Returns 0 or -ENOMEM. */
int extent_commit(struct extent *extent, size_t needed, size_t step);

/* Committed bytes of all extents. Constant time. */
size_t extent_committed_all(void);

#endif
