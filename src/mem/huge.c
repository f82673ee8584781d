/*
 * huge.c: huge pages where the heap grows, and only while it grows there.
 *
 * They save page faults, and those come where the front has just passed. So they are asked for
 * between the last place of the front and the one before, the window, and refused again when the
 * front moves on or something is given back. The huge pages that are there by then stay; but the
 * kernel makes none of what is left, which would fill with zeros what was given back. However often
 * the window moves, it costs two mappings.
 *
 * Where the kernel must fetch memory from a host first, a huge page costs more than all its small
 * ones. So the first one of each window is touched here, by the clock, and when that takes long
 * there are small pages for as long as that was, so that in vain is a small part of all the time.
 *
 * Owner: any thread, by compare-and-swap: docs/protocols/front.md, H1 to H3. Invariant H1: what
 * lies below `window` is refused, or about to be, by whoever moved it. Design:
 * docs/design/region.md
 */
#include "mem/huge.h"

#include "mem/region.h"

enum {
    VAIN_SHARE = 8, /* an eighth of the time that growing takes may be for touches in vain */
    PAGES_MAX = 64, /* times the limit that count: the thread may have been stopped meanwhile */
};

size_t huge_from = SIZE_MAX;
uint64_t huge_ns_max = 1000 * 1000; /* 512 small pages take less: docs/decisions/huge.md */

static _Atomic size_t window; /* the unit it begins at; its end is the front. Only grows. */
static _Atomic size_t again;  /* the unit from which the next touch is tried */

static void refuse(size_t first, size_t end)
{
    size_t from = size_max(first, huge_from);
    if (from < end)
        os_refuse_huge(region_address(from), (end - from) << UNIT_SHIFT);
}

/* H2: the window begins at `end` from now on. It moves first, so that who asks late sees it. */
static void move_window(size_t end)
{
    size_t begin = atomic_load(&window);
    while (begin < end)
        if (atomic_compare_exchange_strong(&window, &begin, end)) {
            refuse(begin, end);
            return;
        }
}

static bool is_quick(size_t unit, size_t end)
{
    uint64_t took = os_touch_ns(region_address(unit));
    if (took <= huge_ns_max)
        return true;
    size_t pages = size_min(took / size_max(huge_ns_max, 1), PAGES_MAX) * VAIN_SHARE;
    store(&again, end + pages * HUGE_UNITS, RELAXED);
    return false;
}

void huge_follow_front(size_t first, size_t end, bool is_wanted)
{
    size_t from = size_max(first, huge_from), whole = region_aligned(from, HUGE_UNITS);
    if (from >= end)
        return;
    move_window(from);
    if (!is_wanted || from < load(&again, RELAXED) || whole + HUGE_UNITS > end)
        return;
    /* H1. */
    os_ask_huge(region_address(from), (end - from) << UNIT_SHIFT);
    /* H3: who has moved the window meanwhile may have refused before this was asked. */
    if (!is_quick(whole, end) || atomic_load(&window) >= end)
        refuse(from, end);
}

void huge_leave(size_t end)
{
    if (end > huge_from && end > atomic_load(&window))
        move_window(load(&region.units, RELAXED));
}
