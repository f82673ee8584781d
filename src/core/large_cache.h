/*
 * large_cache.h: the large cache: large blocks of up to LARGE_CACHE_UNITS_MAX units that were freed
 * last: eight of any length, and of those up to 128 KiB eight more of each two lengths.
 *
 * A program that frees a buffer often requests the same size next; a cached block keeps its pages
 * and is neither merged nor cut again. No thread owns the large cache: any thread can take a block,
 * even while the thread that freed it sleeps. New blocks replace old ones; a purge tick empties
 * slots with the same block as at the last tick, and the purger all slots when the heap has more
 * dirty memory than the program is expected to take again.
 */
#ifndef CALM_CORE_LARGE_CACHE_H
#define CALM_CORE_LARGE_CACHE_H

#include "base/facts.h"

enum { LARGE_CACHE_UNITS_MAX = 128 }; /* 1 MiB: for longer blocks a span search costs little */

/* A request: `units` of an owner (mem/span.h), at a multiple of `align`, a power of two of at least
 * a unit. */
struct large_request {
    size_t units;
    unsigned owner;
    size_t align;
};

/* Takes a matching block from the large cache; its tag says live then. NULL: none. The contents are
 * unspecified. Any thread, also before the heap starts. */
void *large_cache_find(struct large_request request);

/* Frees a large block into the large cache, which replaces a block when full; a block too long goes
 * to the spans. Needs no memory. False: the block was free already, and is unchanged; of threads
 * that free one block at once all but one get false. */
bool large_cache_put(void *block);

/* Moves cached blocks to the spans: all, or those that were there at the last call with `is_all`
 * false. Returns how many blocks moved. Needs the purger's turn unless `is_all`. */
size_t large_cache_drain(bool is_all);

/* Before the region grows for `units`: moves all to the spans if that is enough. Returns whether
 * any moved. */
bool large_cache_drain_for_growth(size_t units);

/* Bytes in the large cache; approximate while other threads work. */
size_t large_cache_bytes(void);

extern const struct watch_fact large_cache_facts[];

#endif
