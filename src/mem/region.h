/*
 * region.h: the one range of addresses that all user memory comes from, and what each part of it
 * is.
 *
 * A unit is the least that a span is made of; a chunk is as many units as a slab has, and where a
 * slab can lie. The chunk map answers "is this a small block?" from one entry: the bin of the slab
 * that lies there, or NO_SLAB, whose class is 0. Class 0 does not exist, so a free sees a large
 * block and a bad pointer with one comparison (core/class.h). The tags say which units are the
 * first of a large block.
 */
#ifndef CALM_MEM_REGION_H
#define CALM_MEM_REGION_H

#include "base/atomic.h"
#include "base/attr.h"
#include "base/bits.h"
#include "os/os.h"

enum {
    UNIT_SHIFT = 13, /* the least step of large blocks' lengths */
    UNIT_BYTES = 1 << UNIT_SHIFT,
    CHUNK_SHIFT = 16,
    CHUNK_BYTES = 1 << CHUNK_SHIFT,
    CHUNK_UNITS = 1 << (CHUNK_SHIFT - UNIT_SHIFT),
    CLASS_BITS = 6,
    CLASS_LIMIT = 1 << CLASS_BITS, /* classes are 1 .. CLASS_LIMIT - 1 */
    REGION_CHUNKS_MAX = 1 << 28,   /* 16 TiB */
    PURGE_PIECE_UNITS = 256,       /* in one kernel call: 60 us (`shrink` in the lab) */
    MOVE_PIECE_UNITS = 64 * 256,   /* likewise: 0.5 ms where no page tables can be moved whole */
    NO_SLAB = 0,                   /* in the chunk map */
};

/* Facts of a span, kept at its first unit, and its length also at its last. */
struct span_tag {
    /* Under the span lock; of a used or pending span, whoever has it, but for `state`. */
    uint32_t units;
    _Atomic uint32_t next; /* neighbours in a free list, as unit numbers; 0 is none */
    uint32_t previous;
    uint8_t state;       /* enum span_state: of a listed span, at both ends; else SPAN_USED */
    bool is_moved : 1;   /* pages came from elsewhere: mappings of its own */
    bool is_sampled : 1; /* its free is told: core/sampled.h              */
    uint16_t owner;      /* of each unit: who has it for ever, or 0 (mem/span.h) */

    /* Owned by whoever holds the span. */
    union {
        void *slab;             /* a slab's bookkeeping; written before the map names its bin */
        _Atomic uintptr_t site; /* of a large block, for reports: where its request returned to */
    };
    _Atomic uint32_t
        asked;             /* units that the large block which begins here can use; for reports, of
                              what did before it was freed, too; 0 is unknown. Others may read it */
    _Atomic bool is_large; /* a live large block begins here                                    */
    uint8_t class_before;  /* for reports: of the slab that was here, until a block begins here */
};
_Static_assert(sizeof(struct span_tag) == 32, "4 MiB for each GiB");

/* An entry of the chunk map. */
struct chunk_entry {
    _Atomic uint16_t bin;   /* of the slab there, or NO_SLAB */
    _Atomic uint16_t limit; /* which frees need no look (core/class.h); 0: none */
};
_Static_assert(sizeof(struct chunk_entry) == 4, "1 GiB of heap has 64 KiB of map");

struct region {
    /* Constant after region_start, which runs before there are threads. Read by every free. */
    _Alignas(CACHE_LINE_BYTES) char *base;
    struct chunk_entry *map;

    /* Only grows. Chunks below the front: the map and the tags cover them. 0 before start. */
    _Atomic size_t chunks;

    /* Constant, as above. */
    struct span_tag *tags;
    size_t granule; /* spans begin and end at multiples: a unit, or the OS page if that is more */
};
extern HIDDEN struct region region;

/* Finds a place for the region, and for its tables. Returns 0 or -ENOMEM; a second try is allowed.
 */
int region_start(const struct os_facts *facts);

/*
 * Moves the front up by at least `units`, by more where that may be had and is wanted; the range
 * found is [*first, *first + *count), committed and zero. Returns 0 or -ENOMEM. Any thread, which
 * waits for none; must not hold the span lock.
 */
int region_grow(size_t units, bool is_more_wanted, size_t *first, size_t *count);

/* Drops pages of the region, in pieces; they read as zero afterwards, and none comes back by
 * itself. Returns 0 or a negative errno value, which is counted: some may be dropped then. */
int region_purge(void *start, size_t size);

/*
 * Moves the pages of the used range [from, from + units) to `to`, which reads as zero and is not to
 * be touched meanwhile; what was at `from` reads as zero then, and *is_zero says whether that holds
 * for all of it. Page tables are moved where the kernel does that, and bytes copied where not, or
 * if `is_copied`, a piece at a time. Returns 0, or OS_HOLE: nothing was moved, and `to` must never
 * be used again. `to` has mappings of its own from now on, until region_renew().
 */
int region_move(size_t from, size_t to, size_t units, bool is_copied, bool *is_zero);

/* As memcpy, from one unit's start to another's, but that pages that are zero in both stay without
 * memory where nobody has written them. */
void region_copy(char *to, const char *from, size_t size);

/*
 * The same to a range that was unmapped and is `more` units longer, which needs no address space
 * but for these; what was at `from` is unmapped then. False: nothing has moved.
 */
bool region_carry(size_t from, size_t to, size_t units, size_t more);

/* Makes a moved range ordinary again, reading as zero. Returns 0 or -ENOMEM. */
int region_renew(size_t unit, size_t units);

/* Whether it lies where nothing else is placed, so that addresses that are given back stay free. */
bool region_is_apart(void);

size_t region_mapped_bytes(void);
size_t region_reserved_bytes(void);
size_t region_resident_bytes(void);
size_t region_tables_mapped_bytes(void);
size_t region_tables_resident_bytes(void);

/* Bytes of the live large block that `address` lies in, and how far inside; 0: in none. For
 * reports: walks back to its head. */
size_t region_around(const void *address, size_t *inside);

/* The chunk an address lies in; at least REGION_CHUNKS_MAX when it is far outside. */
ALWAYS_INLINE size_t region_chunk(const void *address)
{
    return (size_t)((uintptr_t)address - (uintptr_t)region.base) >> CHUNK_SHIFT;
}

/* Whether a chunk can hold blocks, and the map may be asked about it. */
ALWAYS_INLINE bool region_holds(size_t chunk)
{
    return chunk < load_to_compare(&region.chunks);
}

ALWAYS_INLINE char *region_chunk_address(size_t chunk)
{
    return region.base + (chunk << CHUNK_SHIFT);
}

/* The bin of the slab there, or NO_SLAB. */
ALWAYS_INLINE uint32_t region_bin(size_t chunk)
{
    return load(&region.map[chunk].bin, RELAXED);
}

/* The unit that an address of the region lies in. */
ALWAYS_INLINE size_t region_unit(const void *address)
{
    return (size_t)((uintptr_t)address - (uintptr_t)region.base) >> UNIT_SHIFT;
}

/* Units that spans are a multiple of. */
ALWAYS_INLINE size_t region_granule_units(void)
{
    return region.granule / UNIT_BYTES;
}

/* Units below the front. */
ALWAYS_INLINE size_t region_units(void)
{
    return load(&region.chunks, RELAXED) * CHUNK_UNITS;
}

/* Whether a live large block begins at an address of the region. */
ALWAYS_INLINE bool region_is_large(const void *address)
{
    return (uintptr_t)address % UNIT_BYTES == 0 &&
           load(&region.tags[region_unit(address)].is_large, RELAXED);
}

ALWAYS_INLINE char *region_address(size_t unit)
{
    return region.base + (unit << UNIT_SHIFT);
}

/* The first unit from `unit` on whose address is a multiple. */
ALWAYS_INLINE size_t region_aligned(size_t unit, size_t align_units)
{
    size_t skew = (uintptr_t)region.base >> UNIT_SHIFT;
    return align_up(unit + skew, align_units) - skew;
}

#endif
