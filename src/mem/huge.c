/*
 * huge.c: backs new slabs with huge pages, one page at a time.
 *
 * A thread that needs a slab while no dirty span is left has the kernel make one huge page, whose
 * units become dirty. No mapping of the heap keeps huge-page advice, so the kernel never makes huge
 * pages of purged memory, and neighbours stay one mapping.
 *
 * Where the kernel must fetch memory from a host, a huge page takes milliseconds. So each one is
 * timed, and a slow one causes a pause of SLOW_SHARE times its duration: slow ones take at most
 * 1/32 of the time.
 *
 * Owner: any thread. `next_ms` is a lease: the thread that moves it forward may make one page. A
 * thread that ends halfway leaves the lease, which expires after LEASE_MS, and loses a page.
 * Design: docs/design/region.md
 */
#include "mem/huge.h"

#include "mem/span.h"

enum { SLOW_SHARE = 32, LEASE_MS = 1000, NS_A_MS = 1000 * 1000 };

size_t huge_from = SIZE_MAX;
uint64_t huge_ns_max = NS_A_MS; /* 512 small pages take less: docs/decisions/large.md */
struct huge_places huge_places;

static _Atomic uint64_t next_ms; /* no huge page is made before this time */

bool huge_is_wanted(void)
{
    return huge_from != SIZE_MAX && span_dirty_bytes() == 0 &&
           span_charged_bytes() >> UNIT_SHIFT >= huge_from && !span_is_limited();
}

static bool take_lease(uint64_t now)
{
    uint64_t next = load(&next_ms, RELAXED);
    return now >= next && compare_swap(&next_ms, &next, now + LEASE_MS, RELAXED, RELAXED);
}

static void end_lease(uint64_t now, uint64_t took_ns)
{
    bool is_slow = took_ns > huge_ns_max;
    store(&next_ms, is_slow ? now + took_ns * SLOW_SHARE / NS_A_MS : 0, RELAXED);
}

void huge_note(size_t unit, size_t units)
{
    store(&huge_places.are_any, true, RELAXED);
    for (size_t i = huge_place(unit); i <= huge_place(unit + units - 1); i++)
        fetch_or(&huge_places.bits[i / 64 % HUGE_WORDS], (uint64_t)1 << i % 64, RELAXED);
}

/* If the kernel makes no huge page, the lease stays. */
void huge_provide(void)
{
    uint64_t now = os_clock_ms(), took_ns = 0;
    if (!take_lease(now))
        return;
    struct span span = span_acquire(HUGE_UNITS, HUGE_UNITS, 0);
    if (span.unit == 0)
        return;
    huge_note(span.unit, HUGE_UNITS); /* before the page exists: a purger splits what may be huge */
    if (span.is_zero)
        took_ns = os_make_huge(region_address(span.unit), (size_t)HUGE_UNITS << UNIT_SHIFT);
    if (!span.is_zero || took_ns > 0)
        end_lease(now, took_ns);
    span_release(span.unit, HUGE_UNITS, span.is_zero && took_ns == 0);
}
