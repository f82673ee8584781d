/*
 * stats.h: what the heap holds, for programs, people and tools.
 */
#ifndef CALM_FRONT_STATS_H
#define CALM_FRONT_STATS_H

#include "calmalloc/calmalloc.h"

#include "core/class.h"

/* Live blocks by class; cached ones are counted apart. */
struct stats_class {
    size_t block_bytes;
    size_t live_blocks;
    size_t cached_blocks;
    size_t slabs;
};

/* What one depot has given out, and how much of that waits in caches and in batches. */
struct stats_bin {
    size_t slabs;
    size_t taken_blocks;
    size_t cached_blocks; /* wraps below zero: some were put aside by another depot of the class */
};

/* Of a sum of cached blocks: what is below zero, as other threads work, is nothing. */
ALWAYS_INLINE size_t stats_cached(size_t sum)
{
    return (ptrdiff_t)sum > 0 ? sum : 0;
}

/*
 * What is cheap to ask for: sums of counters, whatever the heap holds. What caches hold of small
 * blocks counts as used, as in the C library's own answer. used, fast and rest make up what is
 * mapped; metadata is apart.
 */
struct stats_totals {
    size_t mapped_bytes;
    size_t reserved_bytes;
    size_t used_bytes;
    size_t fast_bytes; /* in batches, and large blocks on the shelf */
    size_t fast_blocks;
    size_t rest_bytes;  /* in slabs, in spans                         */
    size_t dirty_bytes; /* of the rest, what a trim would give back */
};

struct depot;
struct stats_bin stats_read_bin(struct depot *depot);

struct stats_totals stats_read_totals(void);
void stats_read(struct calm_stats *out);
void stats_read_classes(struct stats_class out[CLASS_LIMIT]);

/* Write to a file descriptor; 0 or a positive errno value. JSON is one line. */
int stats_write_text(int fd);
int stats_write_json(int fd);

#endif
