/*
 * span_gone.c: free spans whose addresses were given back, so that a limit on them has room.
 *
 * Where the kernel refuses address space, free units below the front are what can be spared: they
 * are unmapped, and are GONE, a state of free spans with lists of its own. Nothing is placed there
 * meanwhile, as the region lies where the kernel puts nothing. Before the front moves, gone units
 * are mapped again, so that a program that meets its limit again and again does not have the
 * region's tables grow.
 *
 * Owner: any thread; lists under the spans' lock, kernel calls without it.
 * Design: docs/design/region.md
 */
#include "mem/pending.h"
#include "mem/region.h"
#include "mem/span.h"
#include "mem/span_parts.h"
#include "os/os.h"

enum {
    GONE_BATCH = 32,
    LONG_UNITS = 4096, /* 32 MiB: what the C library gives back always, too */
    PIECES_LEAST = 64,
    PIECES_MAX = 256,
    TABLES_SHARE = 32, /* of what is given up: the region's tables and books grow with it, too */
    TABLES_CHUNKS = 3, /* by steps of a chunk */
};

/* Addresses for which the lock is not to be had are lost: no memory is. */
void span_release_gone(size_t unit, size_t units)
{
    if (!span_try_lock())
        return;
    span_lists_insert(unit, units, SPAN_GONE);
    span_unlock();
}

size_t span_gone_bytes(void)
{
    return load(&span_gone_units, RELAXED) << UNIT_SHIFT;
}

bool span_bring_back(size_t unit, size_t units)
{
    if (os_counted(os_map_again(region_address(unit), units << UNIT_SHIFT)) == 0)
        return true;
    span_release_gone(unit, units);
    return false;
}

/* Cuts units out of a span of the owner's, or else nobody's. Returns the first, or 0. */
static size_t cut_gone(size_t units, size_t align_units, unsigned owner)
{
    if (!span_try_lock())
        return 0;
    size_t unit = span_lists_find(span_lists_of(owner, SPAN_GONE), units, align_units);
    if (unit == 0)
        unit = span_lists_find(span_lists_of(0, SPAN_GONE), units, align_units);
    size_t first = unit == 0 ? 0 : region_aligned(unit, align_units);
    if (unit != 0) {
        span_lists_cut(unit, first, units);
        regret_note_taken(&span_in_vain, units);
    }
    span_unlock();
    return first;
}

static void own_if_nobodys(size_t unit, size_t units, unsigned owner)
{
    if (region.tags[unit].owner != owner)
        span_own(unit, units, owner);
}

struct span span_take_gone(size_t units, size_t align_units, unsigned owner)
{
    struct span span = {0, units, true};
    if (likely(load(&span_gone_units, RELAXED) < units))
        return span;
    size_t first = cut_gone(units, align_units, owner);
    if (first != 0 && span_bring_back(first, units)) {
        own_if_nobodys(first, units, owner);
        span.unit = first;
    }
    return span;
}

/* Moves the front by a piece, which takes no more address space than that, and gives it up. A
 * longer piece is tried first. Returns its length, or 0. */
static size_t lengthen(size_t piece)
{
    size_t first, count;
    while (piece > 0 && region_grow(piece, false, &first, &count) != 0)
        piece /= 2;
    piece = piece > 0 ? count : 0;
    if (piece > 0 && os_counted(os_unmap(region_address(first), piece << UNIT_SHIFT)) == 0) {
        span_release_gone(first, piece);
    } else if (piece > 0) {
        struct span kept = {first, piece, true};
        span_give(&kept, 1);
        piece = 0;
    }
    return piece;
}

/* Takes units without addresses as they are, from behind the front if need be. Pieces are few, or
 * it takes too long; they lie together unless another thread moves the front, too. */
static size_t take_addresses(size_t units, unsigned owner)
{
    size_t piece = units, unit = 0;
    for (unsigned turns = 0; turns < PIECES_MAX && piece > 0; turns++) {
        unit = cut_gone(units, 1, owner);
        if (unit != 0)
            break;
        piece = lengthen(size_min(piece, units));
    }
    return unit;
}

size_t span_carry(size_t from, size_t units_old, size_t units)
{
    unsigned owner = region.tags[from].owner;
    if (!region_is_apart() || span_is_limited())
        return 0;
    size_t more = align_up(units - units_old + units / PIECES_LEAST, region_granule_units());
    size_t room = more << UNIT_SHIFT;
    if (!os_would_commit(room))
        span_make_room(room);
    size_t to = take_addresses(units, owner);
    if (to == 0)
        return 0;
    if (!region_carry(from, to, units_old, units - units_old)) {
        span_release_gone(to, units);
        return 0;
    }
    own_if_nobodys(to, units, owner);
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
    for (unsigned list; units_wanted > 0 && count < GONE_BATCH &&
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

/* Of an owner's. */
static size_t give_up_of(unsigned owner, size_t wanted, size_t least, bool *is_refused)
{
    struct span spans[GONE_BATCH];
    size_t given = 0, count = 1;
    while (given < wanted && count > 0 && !*is_refused) {
        count = claim_clean(spans, wanted - given, least, owner);
        for (size_t i = 0; i < count; i++) {
            char *start = region_address(spans[i].unit);
            if (!*is_refused && os_counted(os_unmap(start, spans[i].units << UNIT_SHIFT)) == 0) {
                span_release_gone(spans[i].unit, spans[i].units);
                given += spans[i].units;
                continue;
            }
            *is_refused = true;
            span_give(&spans[i], 1);
        }
    }
    return given;
}

/* Of spans of at least `least` units. */
static size_t give_up(size_t wanted, size_t least)
{
    size_t given = 0;
    bool is_refused = !region_is_apart();
    for (unsigned owner = 0; owner < SPAN_OWNER_LIMIT && given < wanted && !is_refused; owner++)
        if (span_lists_are_made(owner))
            given += give_up_of(owner, wanted - given, least, &is_refused);
    return given;
}

size_t span_give_up(size_t units)
{
    size_t tables = units / TABLES_SHARE + TABLES_CHUNKS * CHUNK_UNITS;
    return give_up(align_up(units, CHUNK_UNITS) + tables, 1); /* the front moves by chunks */
}

void span_give_up_long(void)
{
    give_up(SIZE_MAX, LONG_UNITS);
}
