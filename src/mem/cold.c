/*
 * cold.c: finds cold chunks by trial.
 *
 * No kernel tells an ordinary process which of its pages were read (docs/decisions/memory.md). But
 * a page in swap comes back when it is touched, and its presence can be read. So one page of each
 * chunk is paged out: a chunk in use pays one fault for the trial and keeps its other pages. The
 * next trial uses another page. A page that was paged out wrongly comes back by one fault and is
 * then an ordinary page.
 *
 * If a page does not leave memory, there is no swap, or the page is locked or shared: the chunk is
 * marked cold for the kernel, which decides when memory is short.
 *
 * Owner: the holder of the purger's turn. Kernel calls are made for one chunk at a time, under no
 * other lock. The chunk may change hands meanwhile: pages in swap keep their contents. Design:
 * docs/design/purge.md
 */
#include "mem/cold.h"

#include "mem/meta.h"
#include "mem/region.h"
#include "mem/span.h"

enum {
    PAGE_BYTES_MIN = 4096,
    PAGES_MAX = CHUNK_BYTES / PAGE_BYTES_MIN,
    CHUNKS_A_PART = 64,
    PAGED_OUT_A_PART = 4, /* chunks paged out whole: 130 to 230 us each with zram */
    ROOM_MIN = 4096,
};

static struct {
    uint64_t done_ms; /* when the last pass ended */
    bool is_done;     /* a pass has ended */
    bool is_all;      /* every chunk counts as cold */
    size_t hand, end; /* chunks of the current pass */
    size_t large_end; /* end of the last large block that the pass has met, as a unit */
    size_t page_bytes;
    uint8_t *trials; /* by chunk: number of its page on trial, plus 1; 0: none */
    size_t room;     /* entries of `trials` */
} at;

/* Makes room for the trials of all chunks; false: no memory. */
static bool trials_reserve(size_t chunks)
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
    if (is_due && page_bytes <= CHUNK_BYTES && trials_reserve(chunks)) {
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

/* Pages out part of a chunk. Returns how many pages left memory. */
static size_t page_out(size_t chunk, size_t first, size_t pages, const uint8_t *present)
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

/* A present page, other than the last trial's if possible. */
static size_t choose_page(const uint8_t *present, size_t pages, size_t last)
{
    size_t page = last % pages;
    while (present[page] == 0)
        page = (page + 1) % pages;
    return page;
}

/* Decides by its trial whether a chunk is cold, and starts another trial if not. Returns how many
 * pages left memory; *outs counts chunks that were paged out whole. */
static size_t try_chunk(size_t chunk, unsigned *paged_out)
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
        ++*paged_out;
        return page_out(chunk, 0, pages, present);
    }
    size_t page = choose_page(present, pages, trial);
    size_t left = page_out(chunk, page, 1, present);
    at.trials[chunk] = left > 0 ? (uint8_t)(page + 1) : 0;
    return left;
}

/* Whether a chunk holds a slab or large blocks, and no unmapped span. */
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
    return used == CHUNK_UNITS || (used > 0 && span_unmapped_bytes() == 0);
}

size_t cold_step(uint64_t now_ms)
{
    size_t left = 0;
    unsigned paged_out = 0;
    for (unsigned i = 0; i < CHUNKS_A_PART && paged_out < PAGED_OUT_A_PART && at.hand < at.end;
         i++) {
        if (is_in_use(at.hand))
            left += try_chunk(at.hand, &paged_out);
        at.hand++;
    }
    if (at.hand == at.end) {
        at.done_ms = now_ms;
        at.is_done = true;
    }
    return left * at.page_bytes;
}
