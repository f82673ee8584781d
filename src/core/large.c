/*
 * large.c: blocks of whole units.
 *
 * The map marks the first unit HEAD and the others BODY, so that an interior pointer is seen as
 * such. Growth tries the free span behind the block, then, from MOVE_MIN up, moves the pages by the
 * kernel instead of copying them. A moved block is a mapping of its own; at most MOVES_ALIVE_MAX of
 * them live at a time, and a free makes the range ordinary.
 *
 * Owner: the caller of a block owns it; spans have their own lock.
 * Design: docs/design/large.md
 */
#include "core/large.h"

#include "base/bits.h"
#include "core/purge.h"
#include "core/rows.h"
#include "core/sampled.h"
#include "mem/huge.h"
#include "mem/span.h"
#include "os/os.h"

enum {
    MOVE_MIN_UNITS = 512,
    MOVES_ALIVE_MAX = 16,
    DROP_MIN_UNITS = 512, /* are cleared by the kernel, page by page as the program comes to them */
};

/* Every large request writes these. */
static struct {
    _Alignas(CACHE_LINE_BYTES) _Atomic size_t blocks;
    _Atomic size_t units;
} live;
static _Atomic size_t moves_alive;

static void mark(size_t unit, size_t from, size_t to, unsigned kind)
{
    struct unit_entry *map = region.map + unit; /* read once: the stores might change it */
    if (from == 0)
        store(&map[0].limit, bin_class(kind) == CLASS_SPAN, RELAXED);
    for (size_t i = from; i < to; i++)
        store(&map[i].kind, (uint16_t)kind, RELAXED);
}

static unsigned head_kind(size_t unit, size_t units)
{
    const struct span_tag *tag = &region.tags[unit];
    bool is_cacheable = units <= SPAN_UNITS_MAX && !tag->is_sampled;
    return is_cacheable ? bin_of_span(units, tag->owner) : UNIT_HEAD;
}

void *large_acquire(size_t units, size_t align_units, unsigned owner, bool *is_zero)
{
    struct span span = span_acquire(units, align_units, owner);
    if (span.unit == 0)
        return NULL;
    region.tags[span.unit].bytes = units << UNIT_SHIFT;
    region.tags[span.unit].is_moved = false;
    region.tags[span.unit].is_sampled = false;
    mark(span.unit, 1, units, UNIT_BODY);
    mark(span.unit, 0, 1, head_kind(span.unit, units));
    fetch_add(&live.blocks, 1, RELAXED);
    fetch_add(&live.units, units, RELAXED);
    if (is_zero != NULL)
        *is_zero = span.is_zero;
    return region_address(span.unit);
}

unsigned large_tell_free(void *block)
{
    size_t unit = region_unit(block);
    struct span_tag *tag = &region.tags[unit];
    if (unlikely(tag->is_sampled)) {
        tag->is_sampled = false;
        sampled_on_free(block);
        mark(unit, 0, 1, head_kind(unit, tag->units));
    }
    return region_kind(unit);
}

void large_release(void *block)
{
    size_t unit = region_unit(block);
    struct span_tag *tag = &region.tags[unit];
    size_t units = tag->units;
    bool is_zero = false;
    if (tag->is_moved) {
        is_zero = region_renew(unit, units) == 0;
        tag->is_moved = false;
        if (is_zero)
            fetch_sub(&moves_alive, 1, RELAXED);
    }
    mark(unit, 0, units, UNIT_FREE);
    fetch_sub(&live.blocks, 1, RELAXED);
    fetch_sub(&live.units, units, RELAXED);
    span_release(unit, units, is_zero);
    purge_note(units << UNIT_SHIFT);
}

/* Drops a used block's pages, where it is so large that what it takes must not depend on what was
 * there before: the program may use little of it. False: it must be written. */
static bool is_dropped(void *block, size_t units)
{
    return units >= DROP_MIN_UNITS && region_purge(block, units << UNIT_SHIFT) == 0;
}

void *large_alloc_zeroed(size_t bytes, unsigned owner)
{
    bool is_zero;
    size_t units = large_units(bytes);
    void *block = large_acquire(units, 1, owner, &is_zero);
    if (block != NULL && !is_zero && !is_dropped(block, units))
        __builtin_memset(block, 0, bytes);
    return block;
}

void *large_alloc_aligned(size_t bytes, size_t align, unsigned owner)
{
    return large_acquire(large_units(bytes), size_max(align >> UNIT_SHIFT, 1), owner, NULL);
}

/* A new block of `units` whose first pages are the old block's. */
static void *move_by_kernel(void *block, size_t units_old, size_t units, unsigned owner)
{
    if (units_old < MOVE_MIN_UNITS)
        return NULL;
    if (fetch_add(&moves_alive, 1, RELAXED) >= MOVES_ALIVE_MAX) {
        fetch_sub(&moves_alive, 1, RELAXED);
        return NULL;
    }
    void *target = large_acquire(units, 1, owner, NULL);
    huge_leave(region_unit(block) + units_old); /* moved pages take what is asked with them */
    int error = target == NULL ? 0 : os_counted(os_move(block, target, units_old << UNIT_SHIFT));
    if (target != NULL && error == 0) {
        region.tags[region_unit(target)].is_moved = true;
        large_tell_free(block);
        large_release(block);
        return target;
    }
    fetch_sub(&moves_alive, 1, RELAXED);
    if (target != NULL && error != OS_HOLE) /* a hole must never be handed out again: it is lost */
        large_release(target);
    return NULL;
}

static void shrink(size_t unit, size_t units_old, size_t units)
{
    mark(unit, units, units_old, UNIT_FREE);
    mark(unit, 0, 1, head_kind(unit, units));
    span_shrink(unit, units_old, units);
    fetch_sub(&live.units, units_old - units, RELAXED);
    purge_note((units_old - units) << UNIT_SHIFT);
}

static bool extend(size_t unit, size_t units_old, size_t units)
{
    if (!span_extend(unit, units_old, units))
        return false;
    mark(unit, units_old, units, UNIT_BODY);
    mark(unit, 0, 1, head_kind(unit, units));
    fetch_add(&live.units, units - units_old, RELAXED);
    return true;
}

/* As large_resize, but for what was asked for. */
static void *resize(void *block, size_t bytes, size_t units, unsigned owner)
{
    size_t unit = region_unit(block);
    size_t units_old = region.tags[unit].units;
    bool is_moved =
        region.tags[unit].is_moved; /* its mapping is its own: it neither grows nor is cut */
    if (owner != region.tags[unit].owner)
        return units < units_old ? NULL : move_by_kernel(block, units_old, units, owner);
    /* Half of its bytes, not of its units: what a sized free of it may be told (core/heap.c). */
    bool is_half = bytes >= (units_old << UNIT_SHIFT) / 2;
    if (units == units_old || (is_moved && units < units_old && is_half))
        return block;
    if (is_moved)
        return units > units_old ? move_by_kernel(block, units_old, units, owner) : NULL;
    if (units < units_old && units_old <= SPAN_UNITS_MAX && units_old <= span_units_given(units))
        return block;
    if (units < units_old) {
        shrink(unit, units_old, units);
        return block;
    }
    return extend(unit, units_old, units) ? block : move_by_kernel(block, units_old, units, owner);
}

void *large_resize(void *block, size_t bytes, unsigned owner)
{
    size_t units = large_units(bytes);
    void *resized = resize(block, bytes, units, owner);
    if (resized != NULL)
        large_note_asked(resized, units);
    return resized;
}

void large_mark_sampled(void *block)
{
    size_t unit = region_unit(block);
    region.tags[unit].is_sampled = true;
    mark(unit, 0, 1, UNIT_HEAD);
}

bool large_is_sampled(const void *block)
{
    return region.tags[region_unit(block)].is_sampled;
}

size_t large_usable(const void *block)
{
    return region.tags[region_unit(block)].bytes;
}

size_t large_length(const void *block)
{
    return region.tags[region_unit(block)].units;
}

size_t large_around(const void *address, size_t *inside)
{
    size_t unit = region_unit(address);
    while (region_kind(unit) == UNIT_BODY)
        unit--;
    *inside = (size_t)((const char *)address - region_address(unit));
    return region.tags[unit].bytes;
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
