/*
 * class.h: block sizes, and the arithmetic from an address inside a slab to a block.
 *
 * A class is a number from 1 to CLASS_COUNT - 1; class 0 is no class, and every test of it fails. A
 * bin is a row and a class: row * CLASS_LIMIT + class. A row is a home and a cohort, home *
 * COHORT_LIMIT + cohort, in classes whose blocks share cache lines (core/home.h); or a cohort alone
 * (core/rows.h). Large blocks have no class (core/large.h).
 */
#ifndef CALM_CORE_CLASS_H
#define CALM_CORE_CLASS_H

#include "base/attr.h"
#include "mem/region.h"

enum {
    CLASS_COUNT = 59,
    COHORT_LIMIT = 64,
    HOME_LIMIT = 8,
    ROWS_SHARED = HOME_LIMIT * COHORT_LIMIT,
    ROW_LIMIT = 1024, /* bins are 16 bits */
    BIN_LIMIT = ROW_LIMIT * CLASS_LIMIT,
    LINE_SHARED_MAX = 2 * CACHE_LINE_BYTES - 1, /* larger blocks share few of their lines */
    SMALL_MAX = 4096,                           /* looked up in steps of 8 */
    MEDIUM_MAX = 32768,                         /* looked up in steps of 256 */
    ENTRY_BYTES = 16,                           /* of a cache entry */
};

struct class_facts {
    uint32_t bytes;
    uint16_t capacity;  /* blocks in a slab */
    uint16_t cached;    /* a bin's blocks in one cache, at most */
    uint8_t map_words;  /* 64-bit words of a slab's bitmap */
    uint8_t list_shift; /* free blocks to eighths of the next power of two */
    uint32_t multiplier;
    uint32_t limit;
};

/* The fields that a free needs, packed: a cache line holds eight classes. */
struct class_check {
    uint32_t multiplier;
    uint32_t limit;
};

/* By class: the sizes that may be given to free. None for class 0 (large blocks). */
struct class_given {
    uint64_t least[CLASS_LIMIT];
    uint64_t count[CLASS_LIMIT]; /* how many sizes from `least` on */
};

extern HIDDEN const struct class_given class_given;
extern HIDDEN const struct class_facts class_facts[CLASS_LIMIT];
extern HIDDEN const struct class_check class_checks[CLASS_LIMIT];
extern HIDDEN const uint32_t class_small[SMALL_MAX / 8 + 1];
extern HIDDEN const uint16_t class_medium[MEDIUM_MAX / 256 + 1];

typedef uint16_t bin_index;

ALWAYS_INLINE unsigned bin_class(size_t bin)
{
    return (unsigned)bin & (CLASS_LIMIT - 1);
}

ALWAYS_INLINE unsigned bin_row(unsigned bin)
{
    return bin >> CLASS_BITS;
}

/* Whether blocks of a class share cache lines, so that each home has its own slabs. */
ALWAYS_INLINE bool class_has_homes(unsigned class)
{
    uint32_t bytes = class_facts[class].bytes;
    return bytes <= LINE_SHARED_MAX && bytes % CACHE_LINE_BYTES != 0;
}

/* Rows of a class that may share blocks: 0 up to this. */
ALWAYS_INLINE unsigned class_rows(unsigned class)
{
    return class_has_homes(class) ? ROWS_SHARED : COHORT_LIMIT;
}

/* Bytes of each block of a bin; 0: no such class. */
ALWAYS_INLINE size_t bin_bytes(unsigned bin)
{
    return class_facts[bin_class(bin)].bytes;
}

/* Whether the bin's class exists. */
ALWAYS_INLINE bool bin_exists(unsigned bin)
{
    return bin_bytes(bin) != 0;
}

/* Offset of a size's cache entry within its row. Pre: bytes <= MEDIUM_MAX. */
ALWAYS_INLINE uint32_t class_offset(size_t bytes)
{
    if (likely(bytes <= SMALL_MAX))
        return class_small[(bytes + 7) >> 3];
    return class_medium[(bytes + 255) >> 8];
}

ALWAYS_INLINE unsigned class_of(size_t bytes)
{
    return class_offset(bytes) / ENTRY_BYTES;
}

/* The smallest class whose blocks hold `bytes` and are aligned to `align`; 0: none. */
unsigned class_aligned(size_t bytes, size_t align);

/* The chunk map's limit that lets class_accepts_free() accept the first `blocks` > 0 of a slab. */
ALWAYS_INLINE uint16_t class_limit(unsigned class, unsigned blocks)
{
    uint32_t step = class_facts[class].multiplier * class_facts[class].bytes; /* modulo 2^32 */
    return (uint16_t)((blocks - 1) * step + 1);
}

/* Whether `offset` in a chunk of the class begins a block that may be freed without a look at its
 * slab (core/slab.h). Only slabs have a limit above 0. `multiplier` is 2^32 / bytes + 1, rounded
 * down, so multiplier * bytes exceeds 2^32 by a small e <= bytes. Modulo 2^32 the product is k * e
 * at the start of block k, and at least `multiplier`, above every limit, at any other offset. */
ALWAYS_INLINE bool class_accepts_free(unsigned class, size_t chunk, uint16_t offset)
{
    uint32_t product = (uint32_t)offset * class_checks[class].multiplier;
    return product < load(&region.map[chunk].limit, RELAXED);
}

/* Whether `offset` from a slab's start begins a block. */
ALWAYS_INLINE bool class_begins_block(unsigned class, uint16_t offset)
{
    const struct class_check *check = &class_checks[class];
    return (uint32_t)offset * check->multiplier < check->limit;
}

/* The number of the block that holds `offset`. */
ALWAYS_INLINE unsigned class_block(unsigned class, uint16_t offset)
{
    return (unsigned)((uint64_t)offset * class_facts[class].multiplier >> 32);
}

#endif
