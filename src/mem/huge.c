/*
 * huge.c: backs new slabs with huge pages, one page at a time, and lets large blocks have them.
 *
 * Large blocks follow the system's setting: where it is "always", as with the C library, the kernel
 * makes a huge page wherever the program touches a block of 4 MiB or more. Each such block has a
 * mapping of its own while it lives. Where the setting is "madvise" large blocks have none: nobody
 * knows which ones are written densely.
 *
 * Slabs: a thread that needs a slab while no dirty span is left has the kernel make one huge page,
 * whose units become dirty. Only while the heap grows fast: a heap that keeps its size needs a slab
 * now and then, which would wait for the page, and most of the page would be purged again. No
 * mapping of slabs keeps huge-page advice, so the kernel never makes huge pages of purged memory,
 * and neighbours stay one mapping.
 *
 * Where the kernel must fetch memory from a host, a huge page takes milliseconds. So each one is
 * timed, and an account is kept: small pages would have taken HUGE_SMALL_NS, and the account may
 * fall below zero by one page. Then huge pages pause until a 32nd of the time has passed. Of what
 * was gained, CREDIT_MS are kept, so a few slow pages among fast ones cause no pause.
 *
 * Owner: any thread. The account is a time, `even_ms`: when a 32nd of the time will have paid for
 * all. It is also a lease: the thread that moves it into the future may make one page. A thread
 * that ends halfway, or finds no addresses for the page, loses it and its credit.
 * Design: docs/design/region.md
 */
#include "mem/huge.h"

#include "mem/span.h"

enum {
    CHUNK_MS = 4, /* the heap grows fast if it takes a clean chunk in less: 16 MiB a second */
    GROWN_MS_MIN = 16 * CHUNK_MS, /* by at least 1 MiB more */
    GROWN_MS_MAX = 2 * GROWN_MS_MIN,
    SHARE = 32,
    CREDIT_MS = 128,   /* 4 ms of slowness: one page that is fetched from the host            */
    LEASE_MS = 8,      /* longer than a page takes; a thread may wait longer for its processor */
    REFUSED_MS = 1000, /* pause where the kernel makes none                                   */
    NS_A_MS = 1000 * 1000,
    LOSS_NS_MAX = 5 * NS_A_MS, /* what takes longer includes waits for a processor */
};

size_t huge_from = SIZE_MAX;
bool huge_for_blocks;
struct huge_places huge_places;

static _Atomic uint64_t even_ms;  /* no huge page is made before this time */
static _Atomic uint64_t grown_ms; /* when a chunk in CHUNK_MS would have been as much growth */

/* Notes a clean chunk. Whether the heap grows fast. Threads may lose each other's chunks. */
static bool note_growth(uint64_t now)
{
    uint64_t before = load(&grown_ms, RELAXED), from = before > now ? before : now;
    store(&grown_ms, size_min(from + CHUNK_MS, now + GROWN_MS_MAX), RELAXED);
    return from - now >= GROWN_MS_MIN;
}

bool huge_is_wanted(void)
{
    return huge_from != SIZE_MAX && span_dirty_bytes() == 0 &&
           span_charged_bytes() >> UNIT_SHIFT >= huge_from && !span_is_limited();
}

static bool take_lease(uint64_t now, int64_t *credit_ms)
{
    uint64_t even = load(&even_ms, RELAXED);
    int64_t spare_ms = (int64_t)(now - even);
    *credit_ms = spare_ms < CREDIT_MS ? spare_ms : CREDIT_MS;
    return spare_ms >= 0 && compare_swap(&even_ms, &even, now + LEASE_MS, RELAXED, RELAXED);
}

/* A sum, not a store: the lease may have ended, and another thread have the next. */
static void end_lease(int64_t credit_ms, int64_t cost_ms)
{
    fetch_add(&even_ms, (uint64_t)(cost_ms - credit_ms - LEASE_MS), RELAXED);
}

/* How long the 32nd must pay for a page that took so long. Below zero: what the page gained. */
static int64_t cost_ms(uint64_t took_ns)
{
    int64_t loss_ns = took_ns < LOSS_NS_MAX ? (int64_t)took_ns : LOSS_NS_MAX;
    return (loss_ns - HUGE_SMALL_NS) * SHARE / NS_A_MS;
}

void huge_note(size_t unit, size_t units)
{
    size_t first = huge_place(unit), last = huge_place(unit + units - 1);
    for (size_t i = first; i <= last && i - first < 64 * HUGE_WORDS; i++) /* then all are set */
        fetch_or(&huge_places.bits[i / 64 % HUGE_WORDS], (uint64_t)1 << i % 64, RELAXED);
}

static void drop_tables(size_t unit, size_t units)
{
    for (size_t done = 0; done < units; done += MOVE_PIECE_UNITS) {
        size_t piece = size_min(units - done, MOVE_PIECE_UNITS);
        os_drop_tables(region_address(unit + done), piece << UNIT_SHIFT);
    }
}

bool huge_allow(size_t unit, size_t units, bool is_zero)
{
    if (!huge_for_blocks || span_is_limited())
        return false;
    huge_note(unit, units);
    if (is_zero)
        drop_tables(unit, units);
    return os_counted(os_allow_huge(region_address(unit), units << UNIT_SHIFT)) == 0;
}

void huge_refuse(size_t unit, size_t units)
{
    os_refuse_huge(region_address(unit), units << UNIT_SHIFT);
}

void huge_provide(void)
{
    uint64_t now = os_clock_ms(), took_ns = 0;
    int64_t credit_ms, cost = 0;
    if (!note_growth(now) || !take_lease(now, &credit_ms))
        return;
    struct span span = span_acquire(HUGE_UNITS, HUGE_UNITS, 0);
    if (span.unit == 0)
        return;
    store(&huge_places.are_any, true, RELAXED);
    huge_note(span.unit, HUGE_UNITS); /* before the page exists: a purger splits what may be huge */
    if (span.is_zero) {
        took_ns = os_make_huge(region_address(span.unit), (size_t)HUGE_UNITS << UNIT_SHIFT);
        cost = took_ns > 0 ? cost_ms(took_ns) : REFUSED_MS;
    }
    end_lease(credit_ms, cost);
    span_release(span.unit, HUGE_UNITS, span.is_zero && took_ns == 0);
}
