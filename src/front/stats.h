/*
 * stats.h: the heap's statistics, for programs, people and tools.
 */
#ifndef CALM_FRONT_STATS_H
#define CALM_FRONT_STATS_H

#include "calmalloc/calmalloc.h"

#include "core/class.h"

/* Blocks of a class; live_blocks excludes cached_blocks. */
struct stats_class {
    size_t block_bytes;
    size_t live_blocks;
    size_t cached_blocks;
    size_t slabs;
};

/* Blocks taken from one depot, and how many of them are in caches and batches. */
struct stats_bin {
    size_t slabs;
    size_t taken_blocks;
    size_t cached_blocks; /* may wrap below zero: another depot of the class flushed some */
};

/* A sum of cached blocks. A sum below zero, from a race with other threads, counts as 0. */
ALWAYS_INLINE size_t stats_cached(size_t sum)
{
    return (ptrdiff_t)sum > 0 ? sum : 0;
}

/*
 * Sums of counters, so the cost does not depend on the heap's size. Small blocks in caches count as
 * used, as in glibc. used, fast and rest add up to mapped; metadata is separate.
 */
struct stats_totals {
    size_t mapped_bytes;
    size_t mapped_bytes_max; /* the most so far */
    size_t reserved_bytes;
    size_t used_bytes;
    size_t fast_bytes; /* in batches and the large cache */
    size_t fast_blocks;
    size_t rest_bytes;  /* free bytes in slabs and spans              */
    size_t dirty_bytes; /* not in use, which a trim would purge */
};

struct depot;
struct stats_bin stats_read_bin(struct depot *depot);

struct stats_totals stats_read_totals(void);
void stats_read(struct calm_stats *out);
void stats_read_classes(struct stats_class out[CLASS_LIMIT]);

/* Write to a file descriptor. Return 0 or a positive errno value. JSON is one line. */
int stats_write_text(int fd);
int stats_write_json(int fd);

#endif
