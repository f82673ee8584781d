/*
 * region.h: the address range that all user memory comes from, and what each part of it is.
 *
 * A unit is the smallest part of a span. A chunk is the units of a slab; slabs lie at chunk
 * boundaries. The chunk map answers "is this a small block?" from one entry: the bin of the slab
 * there, or NO_SLAB, whose class is 0. Class 0 does not exist, so a free detects a large block or a
 * bad pointer with one comparison (core/class.h). The tags mark the first unit of each large block.
 */
#ifndef CALM_MEM_REGION_H
#define CALM_MEM_REGION_H

#include "base/atomic.h"
#include "base/attr.h"
#include "base/bits.h"
#include "os/os.h"

enum {
    UNIT_SHIFT = 13, /* granularity of large blocks' lengths */
    UNIT_BYTES = 1 << UNIT_SHIFT,
    CHUNK_SHIFT = 16,
    CHUNK_BYTES = 1 << CHUNK_SHIFT,
    CHUNK_UNITS = 1 << (CHUNK_SHIFT - UNIT_SHIFT),
    CLASS_BITS = 6,
    CLASS_LIMIT = 1 << CLASS_BITS, /* classes are 1 .. CLASS_LIMIT - 1 */
    REGION_CHUNKS_MAX = 1 << 28,   /* 16 TiB */
    PURGE_PIECE_UNITS = 256,       /* per kernel call: 60 us (`shrink` in the lab) */
    MOVE_PIECE_UNITS = 64 * 256,   /* per kernel call: 0.5 ms if page tables are moved in parts */
    NO_SLAB = 0,                   /* in the chunk map */
};

/* Facts of a span, kept at its first unit; its length also at its last unit. */
struct span_tag {
    /* Under the span lock; for a used or pending span, its holder's, except `state`, which others
     * read without the lock. */
    uint32_t units;
    _Atomic uint32_t next; /* neighbours in a free list, as unit numbers; 0 is none */
    uint32_t previous;
    _Atomic uint8_t state; /* enum span_state: of a listed span, at both ends; else SPAN_USED */
    bool is_moved : 1;     /* pages moved from elsewhere: separate mappings                   */
    bool is_sampled : 1;   /* its free is reported: core/sampled.h                            */
    bool is_huge : 1;      /* large block: the kernel may make huge pages there (mem/huge.h)  */
    uint16_t owner;        /* of each unit: permanent owner, or 0 (mem/span.h)                */

    /* Owned by the span's holder. */
    union {
        void *slab;             /* a slab's bookkeeping; written before the map names its bin */
        _Atomic uintptr_t site; /* of a large block, for reports: return address of its request */
    };
    _Atomic uint32_t asked; /* usable units of the large block that begins here; kept after its
                               free, for reports; 0 is unknown. Other threads may read it */
    _Atomic bool is_large;  /* a live large block begins here */
    uint8_t class_before;   /* for reports: of the slab here before the next block */
};
_Static_assert(sizeof(struct span_tag) == 32, "4 MiB for each GiB");

/* An entry of the chunk map. */
struct chunk_entry {
    _Atomic uint16_t bin;   /* of the slab there, or NO_SLAB */
    _Atomic uint16_t limit; /* of class_accepts_free()'s product; 0: refuses all */
};
_Static_assert(sizeof(struct chunk_entry) == 4, "1 GiB of heap has 64 KiB of map");

struct region {
    /* Constant after region_start(), which runs before there are threads. Every free reads them. */
    _Alignas(CACHE_LINE_BYTES) char *base;
    struct chunk_entry *map;

    /* Only grows. The map and the tags cover all chunks below the front. 0 before start. */
    _Atomic size_t chunks;

    /* Constant after region_start(). */
    struct span_tag *tags;
    size_t granule; /* spans begin and end at multiples: a unit, or the OS page if larger */
};
extern HIDDEN struct region region;

/* Finds a place for the region and its tables. Returns 0 or -ENOMEM; a second try is allowed. */
int region_start(const struct os_facts *facts);

/*
 * Moves the front up by at least `units`, by more if possible and wanted. The new range is *count
 * units from *first on, committed and zero. Returns 0 or -ENOMEM. Any thread; never waits. The
 * caller must not hold the span lock.
 */
int region_grow(size_t units, bool is_more_wanted, size_t *first, size_t *count);

/* Purges pages of the region, in pieces; they read as zero afterwards and are not repopulated by
 * themselves. Returns 0 or a negative errno value, which is counted; some pages may be purged then.
 */
int region_purge(void *start, size_t size);

/*
 * Moves the pages of the used range [from, from + units) to `to`, which reads as zero and which no
 * other thread may touch meanwhile. `from` reads as zero afterwards; *is_zero says whether all of
 * it does. Moves page tables where the kernel can; copies bytes where it cannot, or if `is_copied`.
 * Works a piece at a time. Returns 0, or OS_HOLE: nothing moved, and `to` must never be used again.
 * `to` has separate mappings until region_renew().
 */
int region_move(size_t from, size_t to, size_t units, bool is_copied, bool *is_zero);

/* memcpy from one unit's start to another's. Unwritten pages that are zero in both stay without
 * memory. */
void region_copy(char *to, const char *from, size_t size);

/*
 * Like region_move(), to an unmapped range that is `more` units longer. Needs address space for
 * `more` units only. `from` is unmapped afterwards. False: nothing moved.
 */
bool region_carry(size_t from, size_t to, size_t units, size_t more);

/* Makes a moved range ordinary again, reading as zero. Returns 0 or -ENOMEM. */
int region_renew(size_t unit, size_t units);

/* Whether the region lies where the kernel places nothing else, so that unmapped addresses stay
 * free. */
bool region_is_apart(void);

size_t region_mapped_bytes(void);
size_t region_reserved_bytes(void);
size_t region_resident_bytes(void);
size_t region_tables_mapped_bytes(void);
size_t region_tables_resident_bytes(void);

/* Bytes of the live large block around `address`, and the offset in *inside; 0: no such block. For
 * reports: walks back to the block's head. */
size_t region_around(const void *address, size_t *inside);

/* The chunk of an address; at least REGION_CHUNKS_MAX if the address is far outside. */
ALWAYS_INLINE size_t region_chunk(const void *address)
{
    return (size_t)((uintptr_t)address - (uintptr_t)region.base) >> CHUNK_SHIFT;
}

/* Whether a chunk can hold blocks and the map has an entry for it. */
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

/* The unit of an address in the region. */
ALWAYS_INLINE size_t region_unit(const void *address)
{
    return (size_t)((uintptr_t)address - (uintptr_t)region.base) >> UNIT_SHIFT;
}

/* Span lengths are multiples of so many units. */
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
