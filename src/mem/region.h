/*
 * region.h: the one range of addresses that all user memory comes from, and what each unit of it
 * is.
 *
 * The unit map answers "what is this address?" from one entry: a bin for units of slabs, else a
 * kind. Class 0 does not exist, so every kind is a multiple of the class count and the class of a
 * kind is 0; a free thus sees a kind and a bad pointer with one comparison (core/class.h).
 */
#ifndef CALM_MEM_REGION_H
#define CALM_MEM_REGION_H

#include "base/atomic.h"
#include "base/attr.h"
#include "base/bits.h"
#include "os/os.h"

enum {
    UNIT_SHIFT = 16,
    UNIT_BYTES = 1 << UNIT_SHIFT,
    CLASS_BITS = 6,
    CLASS_LIMIT = 1 << CLASS_BITS, /* classes are 1 .. CLASS_LIMIT - 1 */
    REGION_UNITS_MAX = 1 << 28,    /* 16 TiB */
    PURGE_PIECE_UNITS = 32,        /* in one kernel call: 60 us (`shrink` in the lab) */
    MOVE_PIECE_UNITS = 2048,       /* likewise: 0.5 ms where no page tables can be moved whole */
};

/* What a unit of the region is, when it is no slab of a bin. */
enum unit_kind {
    UNIT_FREE = 0 << CLASS_BITS, /* in a free span, or not yet committed                      */
    UNIT_HEAD = 1 << CLASS_BITS, /* the first unit of a large block that no cache would hold  */
    UNIT_BODY = 2 << CLASS_BITS, /* a later unit of a large block                             */
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
    size_t bytes; /* usable ones of the large block that begins here, or, for reports, of what
                     did before it was freed; 0 is unknown */
};
_Static_assert(sizeof(struct span_tag) == 32, "half a line for each 64 KiB");

/* An entry of the unit map. */
struct unit_entry {
    _Atomic uint16_t kind;
    _Atomic uint16_t limit; /* which frees need no look (core/class.h); 0: none */
};
_Static_assert(sizeof(struct unit_entry) == 4, "1 GiB of heap has 64 KiB of map");

struct region {
    /* Constant after region_start, which runs before there are threads. Read by every free. */
    _Alignas(CACHE_LINE_BYTES) char *base;
    struct unit_entry *map;

    /* Only grows. Units below the front: the map and the tags cover them. 0 before start. */
    _Atomic size_t units;

    /* Constant, as above. */
    struct span_tag *tags;
};
extern HIDDEN struct region region;

/* Finds a place for the region, and for its tables. Returns 0 or -ENOMEM; a second try is allowed.
 */
int region_start(const struct os_facts *facts);

/*
 * Moves the front up by at least `units`; the range found is [*first, *first + *count), committed
 * and zero. Returns 0 or -ENOMEM. Any thread, which waits for none; must not hold the span lock.
 */
int region_grow(size_t units, size_t *first, size_t *count);

/* The same by just so many units. */
int region_grow_least(size_t units, size_t *first);

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

/* Bytes of the large block that `address` lies in, and how far inside. For reports: walks back to
 * its head. */
size_t region_around(const void *address, size_t *inside);

/* The unit an address lies in; at least REGION_UNITS_MAX when it is far outside. */
ALWAYS_INLINE size_t region_unit(const void *address)
{
    return (size_t)((uintptr_t)address - (uintptr_t)region.base) >> UNIT_SHIFT;
}

/* Whether a unit can hold blocks, and the map may be asked about it. */
ALWAYS_INLINE bool region_holds(size_t unit)
{
    return unit < load_to_compare(&region.units);
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

ALWAYS_INLINE uint32_t region_kind(size_t unit)
{
    return load(&region.map[unit].kind, RELAXED);
}

#endif
