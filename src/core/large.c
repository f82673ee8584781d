/*
 * large.c: blocks of whole units.
 *
 * Growth tries the free span behind the block, then moves its pages to where it has slack to
 * grow into, so that steps of any size cost a bounded number of moves for each byte. A moved block
 * has mappings of its own; a free makes the range ordinary.
 *
 * Owner: the caller of a block owns it; spans have their own lock.
 * Design: docs/design/large.md
 */
#include "core/large.h"

#include "base/bits.h"
#include "core/purge_turn.h"
#include "core/rows.h"
#include "core/sampled_small.h"
#include "mem/huge.h"
#include "mem/span.h"
#include "os/os.h"

enum {
    DROP_MIN_UNITS =
        4096,         /* are cleared by the kernel, page by page as the program comes to them */
    MOVED_MAX = 1024, /* some ten mappings each, of the 65,530 that a process may have */
};

/* Every large request writes these. */
static struct {
    _Alignas(CACHE_LINE_BYTES) _Atomic size_t blocks;
    _Atomic size_t units;
} live;

static _Atomic size_t moved; /* blocks that have mappings of their own */

/* Whether a block begins at a unit. */
static void mark(size_t unit, bool is_large)
{
    store(&region.tags[unit].is_large, is_large, RELAXED);
}

/* Makes a span a block. */
static void *block_of(struct span span)
{
    struct span_tag *tag = &region.tags[span.unit];
    if (span.unit == 0)
        return NULL;
    store(&tag->asked, (uint32_t)span.units, RELAXED);
    tag->class_before = 0;
    store(&tag->site, 0, RELAXED);
    tag->is_moved = false;
    tag->is_sampled = false;
    mark(span.unit, true);
    fetch_add(&live.blocks, 1, RELAXED);
    fetch_add(&live.units, span.units, RELAXED);
    return region_address(span.unit);
}

void *large_acquire(size_t units, size_t align_units, unsigned owner, bool *is_zero)
{
    struct span span = span_acquire(units, align_units, owner);
    if (is_zero != NULL)
        *is_zero = span.is_zero;
    return block_of(span);
}

void *large_acquire_in_room(size_t units, size_t room, unsigned owner)
{
    return block_of((struct span){span_acquire_in_room(units, room, owner), units, false});
}

void large_tell_free(void *block)
{
    struct span_tag *tag = &region.tags[region_unit(block)];
    if (likely(!tag->is_sampled))
        return;
    tag->is_sampled = false;
    sampled_on_free(block);
}

/* Its units are no block's from now on. */
static void end_block(size_t unit, size_t units)
{
    mark(unit, false);
    fetch_sub(&live.blocks, 1, RELAXED);
    fetch_sub(&live.units, units, RELAXED);
}

static void release(void *block, bool is_zero)
{
    size_t unit = region_unit(block);
    struct span_tag *tag = &region.tags[unit];
    size_t units = tag->units;
    if (tag->is_moved) {
        is_zero = region_renew(unit, units) == 0 || is_zero;
        fetch_sub(&moved, 1, RELAXED);
    }
    end_block(unit, units);
    span_release(unit, units, is_zero);
    purge_note(units << UNIT_SHIFT, units << UNIT_SHIFT);
}

void large_release(void *block)
{
    release(block, false);
}

bool large_lay_aside(void *block)
{
    return exchange(&region.tags[region_unit(block)].is_large, false, ACQ_REL);
}

void large_take_up(void *block)
{
    mark(region_unit(block), true);
    large_note_asked(block, large_length(block));
}

/* Drops a used block's pages, where it is so large that what it takes must not depend on what was
 * there before: the program may use little of it. False: it must be written. */
static bool is_dropped(void *block, size_t units)
{
    return units >= DROP_MIN_UNITS && region_purge(block, units << UNIT_SHIFT) == 0;
}

void *large_clear(void *block, size_t bytes)
{
    if (!is_dropped(block, large_length(block)))
        __builtin_memset(block, 0, bytes);
    return block;
}

void *large_alloc_zeroed(size_t bytes, unsigned owner)
{
    bool is_zero;
    void *block = large_acquire(large_units(bytes), 1, owner, &is_zero);
    return block == NULL || is_zero ? block : large_clear(block, bytes);
}

/* A new block of `units`, more than caches may hold, whose first pages are the old block's. Moved
 * pages come to a place where page tables can be moved whole the next time. */
static void *move(void *block, size_t units_old, size_t units, unsigned owner)
{
    void *target = block_of(span_acquire_growing(units, units_old, HUGE_UNITS, owner));
    size_t from = region_unit(block), to = region_unit(target);
    bool is_zero, is_copied = fetch_add(&moved, 1, RELAXED) >= MOVED_MAX;
    bool is_ours = target != NULL && large_lay_aside(block); /* else it was freed meanwhile */
    bool is_done = is_ours && region_move(from, to, units_old, is_copied, &is_zero) == 0;
    if (!is_done || is_copied)
        fetch_sub(&moved, 1, RELAXED);
    if (is_ours && !is_done)
        mark(from, true);
    if (target != NULL && !is_ours)
        large_release(target);
    if (!is_done)
        return NULL; /* a hole must never be handed out again: it is lost */
    region.tags[to].is_moved = !is_copied;
    large_tell_free(block);
    release(block, is_zero);
    return target;
}

/* The same where there is no memory for two: the old block's addresses go back as its pages move.
 */
static void *carry(void *block, size_t units_old, size_t units)
{
    size_t from = region_unit(block), to = 0;
    if (load(&moved, RELAXED) < MOVED_MAX && large_lay_aside(block)) {
        to = span_carry(from, units_old, units);
        if (to == 0)
            mark(from, true);
    }
    if (to == 0)
        return NULL;
    void *target = block_of((struct span){to, units, true});
    fetch_add(&moved, region.tags[from].is_moved ? 0 : 1, RELAXED);
    region.tags[to].is_moved = true;
    large_tell_free(block);
    end_block(from, units_old);
    span_release_gone(from, units_old);
    return target;
}

static void shrink(size_t unit, size_t units_old, size_t units)
{
    bool is_zero = region.tags[unit].is_moved && region_renew(unit + units, units_old - units) == 0;
    span_shrink(unit, units_old, units, is_zero);
    fetch_sub(&live.units, units_old - units, RELAXED);
    size_t bytes = (units_old - units) << UNIT_SHIFT;
    purge_note(bytes, bytes);
}

static bool extend(size_t unit, size_t units_old, size_t units)
{
    if (!span_extend(unit, units_old, units))
        return false;
    fetch_add(&live.units, units - units_old, RELAXED);
    return true;
}

bool large_resize_in_place(void *block, size_t bytes, unsigned owner)
{
    size_t unit = region_unit(block), units = large_units(bytes);
    size_t units_old = region.tags[unit].units;
    bool is_inside = units <= units_old && bytes > large_usable(block); /* it grows there */
    if (owner != region.tags[unit].owner)
        return false;
    if (units > units_old && !extend(unit, units_old, units))
        return false;
    if (units < units_old && !is_inside)
        shrink(unit, units_old, units);
    large_note_asked(block, units);
    return true;
}

void *large_move(void *block, size_t bytes, unsigned owner)
{
    size_t units = large_units(bytes), units_old = region.tags[region_unit(block)].units;
    if (units <= units_old || units <= LARGE_SHORT_UNITS)
        return NULL;
    void *target = move(block, units_old, units, owner);
    if (target == NULL)
        target = carry(block, units_old, units);
    if (target != NULL)
        large_note_asked(target, units);
    return target;
}

void large_mark_sampled(void *block)
{
    region.tags[region_unit(block)].is_sampled = true;
}

bool large_is_sampled(const void *block)
{
    return region.tags[region_unit(block)].is_sampled;
}

size_t large_usable(const void *block)
{
    return (size_t)load(&region.tags[region_unit(block)].asked, RELAXED) << UNIT_SHIFT;
}

size_t large_length(const void *block)
{
    return region.tags[region_unit(block)].units;
}

size_t large_count(void)
{
    return load(&live.blocks, RELAXED);
}

size_t large_bytes(void)
{
    return load(&live.units, RELAXED) << UNIT_SHIFT;
}

const struct watch_fact large_facts[] = {
    FACT_AT("large.blocks", live.blocks),
    FACT_AT("large.units", live.units),
    FACTS_END,
};
