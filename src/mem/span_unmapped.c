/*
 * span_unmapped.c: free spans whose addresses are unmapped, so that an address-space limit has
 * room.
 *
 * If the kernel refuses address space, free units below the front can be spared: they are unmapped
 * and become SPAN_UNMAPPED, a state of free spans with separate lists. Nothing else is placed
 * there, because the region lies where the kernel puts nothing. Unmapped units are mapped again
 * before the front moves, so that a program that keeps meeting its limit does not grow the region's
 * tables.
 *
 * Owner: any thread; lists under the span lock, kernel calls without it. Design:
 * docs/design/region.md
 */
#include "mem/pending.h"
#include "mem/region.h"
#include "mem/span.h"
#include "mem/span_parts.h"
#include "os/os.h"

enum {
    UNMAP_BATCH = 32,
    AGAIN_UNITS = 256, /* 2 MiB, mapped again at once */
    HOLES_MAX = 64,    /* that long spans leave in the region's mapping */
    PIECES_LEAST = 64,
    PIECES_MAX = 256,
    TABLES_SHARE = 32,         /* of the unmapped units: tables and bookkeeping grow too */
    TABLES_CHUNKS = 3,         /* tables grow by steps of a chunk */
    TIGHT_BYTES = 1024 * 1024, /* least piece unmapped for the program's own mappings */
};

/* The least that the kernel is known to refuse. SIZE_MAX: nothing is known. */
static _Atomic size_t ceiling = SIZE_MAX;

void span_note_ceiling(size_t bytes)
{
    if (bytes < load(&ceiling, RELAXED))
        store(&ceiling, bytes, RELAXED);
}

static size_t mapped_bytes(void)
{
    size_t mapped = region_mapped_bytes();
    return mapped - size_min(mapped, span_unmapped_bytes());
}

bool span_is_near_ceiling(void)
{
    size_t least = load(&ceiling, RELAXED), mapped = mapped_bytes();
    return mapped > least / 2 && mapped < least; /* above it the limit was lifted */
}

/* If the lock is held, the addresses are lost, but no memory is. */
void span_release_unmapped(size_t unit, size_t units)
{
    if (!span_try_lock())
        return;
    span_lists_insert(unit, units, SPAN_UNMAPPED);
    span_unlock();
}

size_t span_unmapped_bytes(void)
{
    return load(&span_unmapped_units, RELAXED) << UNIT_SHIFT;
}

bool span_map_again(size_t unit, size_t units)
{
    if (os_counted(os_map_again(region_address(unit), units << UNIT_SHIFT)) == 0)
        return true;
    span_release_unmapped(unit, units);
    return false;
}

/* Cuts units out of a span of the owner, or else of nobody. Returns the first, or 0. */
static size_t cut_unmapped(size_t units, size_t align_units, unsigned owner)
{
    if (!span_try_lock())
        return 0;
    size_t unit = span_lists_find(span_lists_of(owner, SPAN_UNMAPPED), units, align_units);
    if (unit == 0)
        unit = span_lists_find(span_lists_of(0, SPAN_UNMAPPED), units, align_units);
    size_t first = unit == 0 ? 0 : region_aligned(unit, align_units);
    if (unit != 0) {
        span_lists_cut(unit, first, units);
        refault_note_taken(&span_refaults, units);
    }
    span_unlock();
    return first;
}

/* Maps a piece of at least `units` and keeps these; the rest is clean. */
static struct span map_piece(size_t piece, size_t units, size_t align_units, unsigned owner)
{
    size_t first = cut_unmapped(piece, align_units, owner);
    if (first == 0 || !span_map_again(first, piece))
        return (struct span){0, units, true};
    span_keep(first, piece, first, units, owner);
    return (struct span){first, units, true};
}

/* Maps more than is wanted, so that a heap that grows again needs few kernel calls. The kernel may
 * refuse the larger piece only. */
struct span span_take_unmapped(size_t units, size_t align_units, unsigned owner)
{
    struct span span = {0, units, true};
    if (likely(load(&span_unmapped_units, RELAXED) < units))
        return span;
    if (units < AGAIN_UNITS)
        span = map_piece(AGAIN_UNITS, units, align_units, owner);
    return span.unit != 0 ? span : map_piece(units, units, align_units, owner);
}

/* Moves the front by a piece and unmaps it, so that the peak of address space is one piece. Tries
 * the full length first, then halves. Returns the length, or 0. */
static size_t grow_unmapped(size_t piece)
{
    size_t first, count;
    while (piece > 0 && region_grow(piece, false, &first, &count) != 0)
        piece /= 2;
    piece = piece > 0 ? count : 0;
    if (piece > 0 && os_counted(os_unmap(region_address(first), piece << UNIT_SHIFT)) == 0) {
        span_release_unmapped(first, piece);
    } else if (piece > 0) {
        struct span kept = {first, piece, true};
        span_put_all(&kept, 1);
        piece = 0;
    }
    return piece;
}

/* Takes unmapped units as they are, from beyond the front if need be. Few pieces, to bound the
 * time; they are adjacent unless another thread moves the front too. */
static size_t take_addresses(size_t units, unsigned owner)
{
    size_t piece = units, unit = 0;
    for (unsigned turns = 0; turns < PIECES_MAX && piece > 0; turns++) {
        unit = cut_unmapped(units, 1, owner);
        if (unit != 0)
            break;
        piece = grow_unmapped(size_min(piece, units));
    }
    return unit;
}

size_t span_carry(size_t from, size_t units_old, size_t units)
{
    unsigned owner = region.tags[from].owner;
    if (!region_is_apart() || span_is_limited())
        return 0;
    size_t more = (units - units_old) << UNIT_SHIFT;
    size_t room = align_up(more + (units / PIECES_LEAST << UNIT_SHIFT), region.granule);
    /* Before addresses are taken, whose tables stay. */
    if (!os_would_commit(room)) {
        span_make_room(room);
        if (!os_would_commit(more))
            return 0;
    }
    size_t to = take_addresses(units, owner);
    if (to == 0)
        return 0;
    if (!region_carry(from, to, units_old, units - units_old)) {
        span_release_unmapped(to, units);
        return 0;
    }
    span_own(to, units, owner);
    span_tag_used(to, units);
    return to;
}

/* Takes clean spans of an owner out of the lists, the longest first. */
static size_t claim_clean(struct span *spans, size_t units_wanted, size_t least, unsigned owner)
{
    struct span_lists *clean = span_lists_of(owner, SPAN_CLEAN);
    size_t count = 0;
    if (!span_try_lock())
        return 0;
    for (unsigned list; units_wanted > 0 && count < UNMAP_BATCH &&
                        (list = span_lists_below(clean, LIST_COUNT)) < LIST_COUNT;) {
        size_t unit = clean->heads[list], all = region.tags[unit].units;
        size_t units = align_up(size_min(all, units_wanted), region_granule_units());
        if (all < least)
            break;
        span_lists_cut(unit, unit + all - units, units);
        spans[count++] = (struct span){unit + all - units, units, true};
        units_wanted -= size_min(units_wanted, units);
    }
    span_unlock();
    return count;
}

/* Unmaps clean spans of one owner. */
static size_t unmap_clean_of(unsigned owner, size_t wanted, size_t least, bool *is_refused)
{
    struct span spans[UNMAP_BATCH];
    size_t given = 0, count = 1;
    while (given < wanted && count > 0 && !*is_refused) {
        count = claim_clean(spans, wanted - given, least, owner);
        for (size_t i = 0; i < count; i++) {
            char *start = region_address(spans[i].unit);
            if (!*is_refused && os_counted(os_unmap(start, spans[i].units << UNIT_SHIFT)) == 0) {
                span_release_unmapped(spans[i].unit, spans[i].units);
                given += spans[i].units;
                continue;
            }
            *is_refused = true;
            span_put_all(&spans[i], 1);
        }
    }
    return given;
}

/* Unmaps clean spans of at least `least` units. Returns the units unmapped. */
static size_t unmap_clean(size_t wanted, size_t least)
{
    size_t given = 0;
    bool is_refused = !region_is_apart();
    for (unsigned owner = 0; owner < SPAN_OWNER_LIMIT && given < wanted && !is_refused; owner++)
        if (span_lists_are_made(owner))
            given += unmap_clean_of(owner, wanted - given, least, &is_refused);
    return given;
}

size_t span_unmap(size_t units)
{
    span_note_ceiling(mapped_bytes() + (units << UNIT_SHIFT));
    size_t tables = units / TABLES_SHARE + TABLES_CHUNKS * CHUNK_UNITS;
    return unmap_clean(align_up(units, CHUNK_UNITS) + tables, 1); /* the front moves by chunks */
}

/* Spans of at least a share of the region, so that few holes part its mapping. */
void span_unmap_long(size_t least_bytes)
{
    if (load(&ceiling, RELAXED) != SIZE_MAX)
        least_bytes = size_min(least_bytes, TIGHT_BYTES);
    size_t least = size_max(least_bytes >> UNIT_SHIFT, region_units() / HOLES_MAX);
    if (load(&span_clean_units, RELAXED) >= least)
        unmap_clean(SIZE_MAX, least);
}

void span_unmap_if_limited(void)
{
    if (load(&ceiling, RELAXED) != SIZE_MAX)
        span_unmap_long(TIGHT_BYTES);
}
