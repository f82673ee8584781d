/*
 * span_purge.c: purges the pages of dirty spans; see span.h.
 *
 * Owner: any thread. Spans are taken out of the lists under the span lock and purged without it: no
 * other thread can find them then. Design: docs/design/spans.md
 */
#include "mem/huge.h"
#include "mem/pending.h"
#include "mem/region.h"
#include "mem/span.h"
#include "mem/span_parts.h"

enum {
    PURGE_BATCH = 32,
    REFUSED_MAX = 4, /* pieces refused before a purge ends */
};

static unsigned purge_hand; /* clock hand: the owner whose spans are purged next */

/* What to purge, and the spans taken out of the lists for it. */
struct claim {
    size_t units_wanted, units_max;
    size_t count;
    struct span spans[PURGE_BATCH];
};

static bool is_more_wanted(const struct claim *claim)
{
    return claim->units_wanted > 0 && claim->count < PURGE_BATCH;
}

/* How much of the end of a dirty span is purged: at most `most` units, and the rest of the huge
 * page that would be split. */
static size_t units_of(size_t unit, size_t all, size_t most)
{
    size_t units = size_min(all, most), first = unit + all - units;
    if (units == all || units < HUGE_UNITS || !huge_may_be_at(first))
        return units;
    size_t before = PURGE_PIECE_UNITS - (huge_piece_bytes(region_address(first)) >> UNIT_SHIFT);
    return size_min(all, units + before);
}

/* Takes whole dirty spans of an owner, the longest first. Skips a span of which less than half is
 * wanted: the rest of a cut span would separate two clean ones. */
static void claim_of(unsigned owner, struct claim *claim)
{
    struct span_lists *dirty = span_lists_of(owner, SPAN_DIRTY);
    for (unsigned list = span_lists_below(dirty, LIST_COUNT);
         list < LIST_COUNT && is_more_wanted(claim); list = span_lists_below(dirty, list)) {
        while (dirty->heads[list] != 0 && is_more_wanted(claim)) {
            size_t unit = dirty->heads[list], all = region.tags[unit].units;
            size_t units = units_of(unit, all, claim->units_max);
            if (units / 2 > claim->units_wanted)
                break;
            span_lists_cut(unit, unit + all - units, units);
            claim->spans[claim->count++] = (struct span){unit + all - units, units, false};
            claim->units_wanted -= size_min(claim->units_wanted, units);
        }
    }
}

static void claim_pending(struct claim *claim)
{
    while (is_more_wanted(claim)) {
        struct span span = pending_pop(SPAN_DIRTY);
        if (span.unit == 0)
            return;
        claim->spans[claim->count++] = span;
        claim->units_wanted -= size_min(claim->units_wanted, span.units);
    }
}

/* Takes dirty spans away from other threads, from the owner at the clock hand on, one round at
 * most. */
static void claim_dirty(struct claim *claim)
{
    if (!span_try_lock()) {
        claim_pending(claim);
        return;
    }
    unsigned first = SPAN_OWNER_LIMIT;
    while (load(&span_dirty_units, RELAXED) > 0 && is_more_wanted(claim)) {
        purge_hand = span_lists_dirty_owner(purge_hand);
        if (purge_hand == first)
            break;
        first = first == SPAN_OWNER_LIMIT ? purge_hand : first;
        claim_of(purge_hand, claim);
        if (span_lists_are_empty(span_lists_of(purge_hand, SPAN_DIRTY))) {
            span_lists_clear_owner(purge_hand);
            first = SPAN_OWNER_LIMIT;
        } else if (is_more_wanted(claim)) {
            purge_hand = (purge_hand + 1) % SPAN_OWNER_LIMIT;
        }
    }
    span_note_least();
    span_unlock();
}

/* The program may have asked for huge pages in a block that lay there: its advice outlives the
 * block. */
static void forget_advice(const struct span *span)
{
    if (span->units >= HUGE_UNITS)
        huge_refuse(span->unit, span->units);
}

/* Drops the pages of a claimed span. A piece that the kernel refuses, because of locked pages, is
 * released at once with what lies before it; *span becomes the rest. Returns the units purged. */
static size_t drop(struct span *span, unsigned *refused)
{
    size_t done = 0, dropped = 0, units;
    forget_advice(span);
    for (; done < span->units && *refused < REFUSED_MAX; done += units) {
        char *at = region_address(span->unit + done);
        units = size_min(span->units - done, huge_piece_bytes(at) >> UNIT_SHIFT);
        if (region_purge(at, units << UNIT_SHIFT) == 0) {
            dropped += units;
            continue;
        }
        struct span parts[] = {{span->unit, done, true}, {span->unit + done, units, false}};
        span_put_all(parts, 2);
        *span = (struct span){span->unit + done + units, span->units - done - units, false};
        done = units = 0;
        (*refused)++;
    }
    span->is_zero = done == span->units;
    return dropped;
}

size_t span_purge(size_t bytes_wanted, size_t bytes_max)
{
    struct claim claim = {.units_wanted = bytes_wanted >> UNIT_SHIFT,
                          .units_max = align_down(bytes_max, region.granule) >> UNIT_SHIFT};
    size_t purged = 0;
    unsigned refused = 0;
    claim_dirty(&claim);
    for (size_t i = 0; i < claim.count; i++)
        purged += drop(&claim.spans[i], &refused);
    if (claim.count > 0)
        span_put_all(claim.spans, claim.count);
    refault_note_purged(&span_refaults, purged);
    return purged << UNIT_SHIFT;
}
