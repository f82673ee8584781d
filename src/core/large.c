/*
 * large.c: blocks of whole units.
 *
 * A block grows into the free span behind it, or its pages move to where it has slack to grow into,
 * so that steps of any size cost a bounded number of moves for each byte. A moved block has
 * mappings of its own; a free makes the range ordinary again.
 *
 * Owner: the caller of a block owns it; spans have their own lock. Design: docs/design/large.md
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
    DROP_MIN_UNITS = 4096, /* from here on the kernel clears each page at its first touch */
    MOVED_MAX = 1024,      /* some ten mappings each, of the 65,530 that a process may have */
    HUGE_MAX = 8192,       /* two mappings each                                             */
    HUGE_BLOCK_UNITS = 2 * HUGE_UNITS, /* shorter ones seldom cover a huge page's place     */
};

/* On a line of its own: every large request writes it. */
static struct {
    _Alignas(CACHE_LINE_BYTES) _Atomic size_t blocks;
    _Atomic size_t units;
} live;

static _Atomic size_t moved; /* blocks with mappings of their own */
static _Atomic size_t huge;  /* blocks that may have huge pages   */

/* Records whether a block begins at the unit. */
static void tag_large(size_t unit, bool is_large)
{
    store(&region.tags[unit].is_large, is_large, RELAXED);
}

static void count_huge(struct span_tag *tag)
{
    if (tag->is_huge)
        return;
    tag->is_huge = true;
    fetch_add(&huge, 1, RELAXED);
}

/* Lets `units` of a long block have huge pages, if they are enough for one and the system's setting
 * is so. `is_zero`: nothing is there. */
static void allow_huge(struct span_tag *tag, size_t unit, size_t units, bool is_zero)
{
    if (tag->units < HUGE_BLOCK_UNITS || units < HUGE_UNITS)
        return;
    if ((tag->is_huge || load(&huge, RELAXED) < HUGE_MAX) && huge_allow(unit, units, is_zero))
        count_huge(tag);
}

/* Mappings that moved keep their advice. */
static void inherit_huge(size_t from, size_t to)
{
    if (!region.tags[from].is_huge)
        return;
    huge_note(to, region.tags[to].units);
    count_huge(&region.tags[to]);
}

/* Makes a block of a span. NULL for the empty span. */
static void *make_block(struct span span)
{
    struct span_tag *tag = &region.tags[span.unit];
    if (span.unit == 0)
        return NULL;
    store(&tag->asked, (uint32_t)span.units, RELAXED);
    tag->class_before = 0;
    store(&tag->site, 0, RELAXED);
    tag->is_moved = false;
    tag->is_sampled = false;
    tag->is_huge = false;
    if (span.is_zero)
        allow_huge(tag, span.unit, span.units, true);
    tag_large(span.unit, true);
    fetch_add(&live.blocks, 1, RELAXED);
    fetch_add(&live.units, span.units, RELAXED);
    return region_address(span.unit);
}

void *large_acquire(size_t units, size_t align_units, unsigned owner, bool *is_zero)
{
    struct span span = span_acquire(units, align_units, owner);
    if (is_zero != NULL)
        *is_zero = span.is_zero;
    return make_block(span);
}

void *large_acquire_in_room(size_t units, size_t room, unsigned owner)
{
    return make_block((struct span){span_acquire_in_room(units, room, owner), units, false});
}

void large_report_free(void *block)
{
    struct span_tag *tag = &region.tags[region_unit(block)];
    if (likely(!tag->is_sampled))
        return;
    tag->is_sampled = false;
    sampled_on_free(block);
}

static void end_block(size_t unit, size_t units)
{
    tag_large(unit, false);
    if (region.tags[unit].is_huge)
        fetch_sub(&huge, 1, RELAXED);
    fetch_sub(&live.blocks, 1, RELAXED);
    fetch_sub(&live.units, units, RELAXED);
}

static void release(void *block, bool is_zero)
{
    size_t unit = region_unit(block);
    struct span_tag *tag = &region.tags[unit];
    size_t units = tag->units;
    if (tag->is_huge)
        huge_refuse(unit, units);
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

bool large_claim(void *block)
{
    return exchange(&region.tags[region_unit(block)].is_large, false, ACQ_REL);
}

void large_revive(void *block)
{
    tag_large(region_unit(block), true);
    large_note_asked(block, large_length(block));
}

/* Purges a long block's pages, so that a program that uses little of the block pays for little.
 * False: the caller must write zeros. */
static bool drop_pages(void *block, size_t units)
{
    if (units < DROP_MIN_UNITS || region_purge(block, units << UNIT_SHIFT) != 0)
        return false;
    size_t unit = region_unit(block);
    allow_huge(&region.tags[unit], unit, units, true);
    if (!region.tags[unit].is_huge)
        huge_refuse(unit, units); /* advice of the program's, for an earlier block */
    return true;
}

void *large_clear(void *block, size_t bytes)
{
    if (!drop_pages(block, large_length(block)))
        __builtin_memset(block, 0, bytes);
    return block;
}

void *large_alloc_zeroed(size_t bytes, unsigned owner)
{
    bool is_zero;
    void *block = large_acquire(large_units(bytes), 1, owner, &is_zero);
    return block == NULL || is_zero ? block : large_clear(block, bytes);
}

/* Makes a block of a span that must read as zero. NULL: none, or it does not. */
static void *make_target(struct span span)
{
    bool is_zero = span.unit == 0 || span.is_zero ||
                   region_purge(region_address(span.unit), span.units << UNIT_SHIFT) == 0;
    if (is_zero)
        return make_block((struct span){span.unit, span.units, false});
    span_release(span.unit, span.units, false);
    return NULL;
}

/* Moves a block's pages to a new block of `units`. The target's alignment lets the next move take
 * whole page tables. NULL: not moved. */
static void *move(void *block, size_t units_old, size_t units, unsigned owner)
{
    void *target = make_target(span_acquire_growing(units, units_old, HUGE_UNITS, owner));
    size_t from = region_unit(block), to = region_unit(target);
    bool is_zero, is_copied = fetch_add(&moved, 1, RELAXED) >= MOVED_MAX;
    bool is_ours = target != NULL && large_claim(block); /* else it was freed meanwhile */
    bool is_done = is_ours && region_move(from, to, units_old, is_copied, &is_zero) == 0;
    if (!is_done || is_copied)
        fetch_sub(&moved, 1, RELAXED);
    if (is_ours && !is_done)
        tag_large(from, true);
    if (target != NULL && !is_ours)
        large_release(target);
    if (!is_done)
        return NULL; /* a hole at the target must never be handed out again */
    region.tags[to].is_moved = !is_copied;
    if (!is_copied)
        inherit_huge(from, to);
    allow_huge(&region.tags[to], to, units, false); /* also the mappings that moved */
    large_report_free(block);
    release(block, is_zero);
    return target;
}

/* Moves a block where there is no memory for two: its old addresses return to the kernel as the
 * pages move. NULL: not moved. */
static void *carry(void *block, size_t units_old, size_t units)
{
    size_t from = region_unit(block), to = 0;
    if (load(&moved, RELAXED) < MOVED_MAX && large_claim(block)) {
        to = span_carry(from, units_old, units);
        if (to == 0)
            tag_large(from, true);
    }
    if (to == 0)
        return NULL;
    void *target = make_block((struct span){to, units, false}); /* the pages are there */
    fetch_add(&moved, region.tags[from].is_moved ? 0 : 1, RELAXED);
    region.tags[to].is_moved = true;
    inherit_huge(from, to);
    large_report_free(block);
    end_block(from, units_old);
    span_release_unmapped(from, units_old);
    return target;
}

static void shrink(size_t unit, size_t units_old, size_t units)
{
    if (region.tags[unit].is_huge)
        huge_refuse(unit + units, units_old - units);
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
    allow_huge(&region.tags[unit], unit + units_old, units - units_old, false);
    return true;
}

bool large_grows_fresh(const void *block)
{
    return span_state_at(region_unit(block) + large_length(block)) != SPAN_DIRTY;
}

bool large_resize_in_place(void *block, size_t bytes, unsigned owner)
{
    size_t unit = region_unit(block), units = large_units(bytes);
    size_t units_old = region.tags[unit].units;
    bool is_inside = units <= units_old && bytes > large_usable(block); /* grows within its units */
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
