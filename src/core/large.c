/*
 * large.c: blocks of whole units.
 *
 * The map marks the first unit HEAD and the others BODY, so that an interior pointer is seen as such. Growth tries the
 * free span behind the block, then, from MOVE_MIN up, moves the pages by the kernel instead of copying them. A moved
 * block is a mapping of its own; at most MOVES_ALIVE_MAX of them live at a time, and a free makes the range ordinary.
 *
 * Owner: the caller of a block owns it; spans have their own lock.
 * Design: docs/design/large.md
 */
#include "core/large.h"

#include "base/bits.h"
#include "core/purge.h"
#include "mem/span.h"
#include "os/os.h"

enum { MOVE_MIN_UNITS = 512, MOVES_ALIVE_MAX = 16 };

static _Atomic size_t live_blocks;
static _Atomic size_t live_units;
static _Atomic size_t moves_alive;

static size_t units_for(size_t bytes)
{
    return (bytes + UNIT_BYTES - 1) >> UNIT_SHIFT;
}

static void mark(size_t unit, size_t units, unsigned first, unsigned others)
{
    store(&region.map[unit], (uint16_t)first, RELAXED);
    for (size_t i = 1; i < units; i++)
        store(&region.map[unit + i], (uint16_t)others, RELAXED);
}

static void count_live(size_t blocks, size_t units)
{
    fetch_add(&live_blocks, blocks, RELAXED);
    fetch_add(&live_units, units, RELAXED);
}

void *large_alloc(size_t bytes, size_t align, bool is_zeroed)
{
    size_t units = units_for(size_max(bytes, 1));
    struct span span = span_acquire(units, size_max(align >> UNIT_SHIFT, 1));
    if (span.unit == 0)
        return NULL;
    region.tags[span.unit].bytes = bytes;
    region.tags[span.unit].spare = NULL;
    region.tags[span.unit].is_moved = false;
    mark(span.unit, units, UNIT_HEAD, UNIT_BODY);
    count_live(1, units);
    void *block = region_address(span.unit);
    if (is_zeroed && !span.is_zero)
        __builtin_memset(block, 0, bytes);
    return block;
}

void large_free(void *block)
{
    size_t unit = region_unit(block);
    struct span_tag *tag = &region.tags[unit];
    size_t units = tag->units;
    bool is_zero = false;
    if (tag->is_moved) {
        is_zero = os_renew(block, units << UNIT_SHIFT) == 0;
        tag->is_moved = false;
        if (is_zero)
            fetch_sub(&moves_alive, 1, RELAXED);
    }
    mark(unit, units, UNIT_FREE, UNIT_FREE);
    tag->spare = (void *)(units << UNIT_SHIFT); /* so that a second free can be named */
    fetch_sub(&live_blocks, 1, RELAXED);
    fetch_sub(&live_units, units, RELAXED);
    span_release(unit, units, is_zero);
    purge_note(units << UNIT_SHIFT);
}

static void *move_by_kernel(void *block, size_t units_old, size_t bytes)
{
    if (units_old < MOVE_MIN_UNITS)
        return NULL;
    if (fetch_add(&moves_alive, 1, RELAXED) >= MOVES_ALIVE_MAX) {
        fetch_sub(&moves_alive, 1, RELAXED);
        return NULL;
    }
    char *target = large_alloc(bytes, 1, false);
    size_t moved = size_min(units_old, target == NULL ? 0 : units_for(bytes)) << UNIT_SHIFT;
    if (target == NULL || os_move(block, target, moved) != 0) {
        if (target != NULL)
            large_free(target);
        fetch_sub(&moves_alive, 1, RELAXED);
        return NULL;
    }
    region.tags[region_unit(target)].is_moved = true;
    large_free(block);
    return target;
}

void *large_realloc(void *block, size_t bytes)
{
    size_t unit = region_unit(block);
    size_t units_old = region.tags[unit].units;
    size_t units_new = units_for(bytes);
    if (units_new < units_old && !region.tags[unit].is_moved) {
        for (size_t i = units_new; i < units_old; i++)
            store(&region.map[unit + i], UNIT_FREE, RELAXED);
        span_shrink(unit, units_old, units_new);
        fetch_sub(&live_units, units_old - units_new, RELAXED);
        purge_note((units_old - units_new) << UNIT_SHIFT);
    }
    bool fits = units_new <= units_old;
    if (!fits && !region.tags[unit].is_moved && span_extend(unit, units_old, units_new)) {
        for (size_t i = units_old; i < units_new; i++)
            store(&region.map[unit + i], UNIT_BODY, RELAXED);
        count_live(0, units_new - units_old);
        fits = true;
    }
    if (fits) {
        region.tags[unit].bytes = bytes;
        return block;
    }
    void *target = move_by_kernel(block, units_old, bytes);
    if (target != NULL)
        return target;
    target = large_alloc(bytes, 1, false);
    if (target == NULL)
        return NULL;
    __builtin_memcpy(target, block, size_min(bytes, units_old << UNIT_SHIFT));
    large_free(block);
    return target;
}

size_t large_usable(const void *block)
{
    return (size_t)region.tags[region_unit(block)].units << UNIT_SHIFT;
}

size_t large_good_size(size_t bytes)
{
    return align_up(bytes, UNIT_BYTES);
}

size_t large_around(const void *address, size_t *inside)
{
    size_t unit = region_unit(address);
    while (region_kind(unit) == UNIT_BODY)
        unit--;
    *inside = (size_t)((const char *)address - region_address(unit));
    return (size_t)region.tags[unit].units << UNIT_SHIFT;
}

size_t large_count(void)
{
    return load(&live_blocks, RELAXED);
}

size_t large_bytes(void)
{
    return load(&live_units, RELAXED) << UNIT_SHIFT;
}
