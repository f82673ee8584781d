/*
 * extent.h: a reserved range of addresses whose beginning is committed.
 *
 * The front only moves up, in steps, so that a range is two mappings however large it grows.
 */
#ifndef CALM_MEM_EXTENT_H
#define CALM_MEM_EXTENT_H

#include "base/atomic.h"
#include "base/attr.h"

struct extent {
    char *start;
    _Atomic size_t reserved;  /* bytes; grows when the address space was limited at start    */
    _Atomic size_t committed; /* bytes from start that are readable and writable; the front  */
    const char *name;
};

/* Reserves `size` bytes aligned to `align`. Returns 0 or -ENOMEM. */
int extent_reserve(struct extent *extent, size_t size, size_t align, const char *name);

/* Moves the front up to at least `needed` bytes and at most a `step` beyond. Any thread, which
 * waits for none. 0 or -ENOMEM. */
int extent_commit(struct extent *extent, size_t needed, size_t step);

#endif
