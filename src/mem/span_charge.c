/*
 * span_charge.c: what the heap is charged for, used and dirty units, and the limit on that.
 *
 * Under a limit a thread first reserves the charge of clean or fresh units, then takes them: two
 * threads cannot pass the limit together.
 *
 * Owner: any thread, lock-free. Design: docs/design/spans.md
 */
#include "mem/pending.h"
#include "mem/region.h"
#include "mem/span.h"
#include "mem/span_parts.h"

#define UNLIMITED SIZE_MAX
static _Atomic size_t limit_units = UNLIMITED; /* UNLIMITED - 1: on_charge is set */
static void (*_Atomic on_charge)(size_t units);
static _Atomic size_t reserved_charge; /* being taken, under a limit */

static size_t charged_units(void)
{
    size_t free_units = load(&span_clean_units, RELAXED) + load(&span_slack_units, RELAXED) +
                        load(&span_unmapped_units, RELAXED) + pending_units(SPAN_CLEAN);
    size_t front = size_max(region_units(), CHUNK_UNITS) - CHUNK_UNITS;
    return front - size_min(front, free_units);
}

bool span_is_limited(void)
{
    return load(&limit_units, RELAXED) < UNLIMITED - 1;
}

static NOINLINE bool reserve_charge_limited(size_t units)
{
    void (*tell)(size_t) = load(&on_charge, ACQUIRE);
    /* The front moves by whole chunks: the rest of a chunk is charged until it is free again. */
    units = align_up(units, CHUNK_UNITS);
    if (tell != NULL)
        tell(units);
    size_t limit = load(&limit_units, RELAXED);
    if (limit >= UNLIMITED - 1)
        return true;
    size_t reserved = fetch_add(&reserved_charge, units, RELAXED) + units;
    if (reserved <= limit && charged_units() <= limit - reserved)
        return true;
    fetch_sub(&reserved_charge, units, RELAXED);
    return false;
}

bool span_reserve_charge(size_t units)
{
    return likely(load(&limit_units, RELAXED) == UNLIMITED) || reserve_charge_limited(units);
}

void span_end_charge(size_t units)
{
    size_t reserved = load(&reserved_charge, RELAXED);
    units = align_up(units, CHUNK_UNITS);
    while (unlikely(reserved > 0) &&
           !compare_swap(&reserved_charge, &reserved, reserved - size_min(reserved, units), RELAXED,
                         RELAXED))
        continue; /* each turn is another thread's progress */
}

size_t span_charged_bytes(void)
{
    return charged_units() << UNIT_SHIFT;
}

void span_limit(size_t bytes)
{
    size_t unlimited = UNLIMITED - (load(&on_charge, RELAXED) != NULL);
    store(&limit_units, bytes == 0 ? unlimited : bytes >> UNIT_SHIFT, RELAXED);
}

void span_on_charge(void (*tell)(size_t units))
{
    size_t expected = UNLIMITED;
    store(&on_charge, tell, RELEASE);
    compare_swap(&limit_units, &expected, UNLIMITED - 1, RELAXED, RELAXED);
}
