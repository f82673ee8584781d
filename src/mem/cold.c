/*
 * cold.c: which chunks are cold, by trial.
 *
 * No kernel tells an ordinary process which of its pages were read (docs/decisions/memory.md). But
 * a page that was sent to swap comes back when it is touched, and whether it did can be seen. So
 * one page of each chunk is sent: a chunk in use pays one fault for it, and keeps the rest. The
 * next trial is another page's. A page that is sent out wrongly comes back by one fault, and counts
 * as any page from then on.
 *
 * Where a page does not leave there is no swap, or it is locked or shared: the chunk is marked as
 * cold for the kernel, which decides when it is short of memory.
 *
 * Owner: whoever has the purger's turn. Kernel calls are made for a chunk at a time, under no other
 * lock. A chunk may change hands meanwhile: what is in swap is whole. Design: docs/design/purge.md
 */
#include "mem/cold.h"

#include "mem/meta.h"
#include "mem/region.h"
#include "mem/span.h"

enum {
    PAGE_BYTES_MIN = 4096,
    PAGES_MAX = CHUNK_BYTES / PAGE_BYTES_MIN,
    CHUNKS_A_PART = 64,
    OUTS_A_PART = 4, /* chunks sent out whole: 130 to 230 us each with zram */
    ROOM_MIN = 4096,
};

static struct {
    uint64_t done_ms; /* when the last pass was over */
    bool is_done;     /* there was one */
    bool is_all;      /* each chunk counts as cold */
    size_t hand, end; /* chunks of the pass that is under way */
    size_t large_end; /* of the last large block that the pass has met, as a unit */
    size_t page_bytes;
    uint8_t *trials; /* by chunk: the number of its page on trial, and 1; 0: none */
    size_t room;     /* of `trials` */
} at;

/* Room for a trial of each chunk; false: no memory. */
static bool make_room(size_t chunks)
{
    if (chunks <= at.room)
        return true;
    size_t room = size_max(chunks + chunks / 2, ROOM_MIN);
    uint8_t *trials = (uint8_t *)meta_alloc(room, CACHE_LINE_BYTES);
    if (trials == NULL)
        return false;
    if (at.room > 0)
        __builtin_memcpy(trials, at.trials, at.room);
    at.trials = trials;
    at.room = room;
    return true;
}

bool cold_begin(uint64_t now_ms, uint64_t age_ms, size_t page_bytes)
{
    bool is_due = age_ms == 0 ||
                  (at.hand == at.end && (!at.is_done || now_ms - at.done_ms >= age_ms));
    size_t chunks = load(&region.chunks, RELAXED);
    if (is_due && page_bytes <= CHUNK_BYTES && make_room(chunks)) {
        at.is_all = age_ms == 0;
        at.hand = size_min(1, chunks);
        at.end = chunks;
        at.large_end = 0;
        at.page_bytes = page_bytes;
    }
    return at.hand < at.end;
}

static unsigned count_present(const uint8_t *present, size_t pages)
{
    unsigned count = 0;
    for (size_t i = 0; i < pages; i++)
        count += present[i];
    return count;
}

/* Sends pages of a chunk to swap; how many left. */
static size_t send_out(size_t chunk, size_t first, size_t pages, const uint8_t *present)
{
    char *start = region_chunk_address(chunk) + first * at.page_bytes;
    uint8_t after[PAGES_MAX];
    size_t before = count_present(present + first, pages);
    os_counted(os_page_out(start, pages * at.page_bytes));
    if (os_present(start, pages * at.page_bytes, after) != 0)
        return 0;
    size_t left = before - size_min(before, count_present(after, pages));
    if (left == 0)
        os_counted(os_cool(region_chunk_address(chunk), CHUNK_BYTES));
    return left;
}

/* A page that is there, if possible another one than the last trial's. */
static size_t next_trial(const uint8_t *present, size_t pages, size_t last)
{
    size_t page = last % pages;
    while (present[page] == 0)
        page = (page + 1) % pages;
    return page;
}

/* Judges a chunk by its trial, and begins another one where it is in use. Returns how many pages
 * left; *outs counts chunks that were sent out whole. */
static size_t judge(size_t chunk, unsigned *outs)
{
    size_t pages = CHUNK_BYTES / at.page_bytes, trial = at.trials[chunk];
    uint8_t present[PAGES_MAX];
    if (os_present(region_chunk_address(chunk), CHUNK_BYTES, present) != 0)
        return 0;
    bool is_cold = at.is_all || (trial != 0 && present[trial - 1] == 0);
    at.trials[chunk] = 0;
    if (count_present(present, pages) == 0)
        return 0;
    if (is_cold) {
        ++*outs;
        return send_out(chunk, 0, pages, present);
    }
    size_t page = next_trial(present, pages, trial);
    size_t left = send_out(chunk, page, 1, present);
    at.trials[chunk] = left > 0 ? (uint8_t)(page + 1) : 0;
    return left;
}

/* Whether blocks lie in a chunk, and nothing that was unmapped: a slab is there, or large blocks.
 */
static bool is_in_use(size_t chunk)
{
    size_t first = chunk * CHUNK_UNITS, used = 0;
    if (region_bin(chunk) != NO_SLAB)
        return true;
    for (size_t unit = first; unit < first + CHUNK_UNITS; unit++) {
        if (load(&region.tags[unit].is_large, RELAXED))
            at.large_end = unit + load(&region.tags[unit].asked, RELAXED);
        used += unit < at.large_end;
    }
    return used == CHUNK_UNITS || (used > 0 && span_gone_bytes() == 0);
}

size_t cold_some(uint64_t now_ms)
{
    size_t left = 0;
    unsigned outs = 0;
    for (unsigned i = 0; i < CHUNKS_A_PART && outs < OUTS_A_PART && at.hand < at.end; i++) {
        if (is_in_use(at.hand))
            left += judge(at.hand, &outs);
        at.hand++;
    }
    if (at.hand == at.end) {
        at.done_ms = now_ms;
        at.is_done = true;
    }
    return left * at.page_bytes;
}
