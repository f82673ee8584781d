/*
 * depot_purge.c: purges the idle pages of slabs in use.
 *
 * The purger claims the free blocks on such pages, as a refill would, so that no thread gets one
 * during the kernel call; the lock is not held over system calls.
 *
 * Owner: the purger. Design: docs/design/purge.md
 */
#include "core/depot_parts.h"
#include "core/mark.h"
#include "os/os.h"

enum { DEFERRED_MAX = 32 }; /* as a batch: little stack */

size_t depot_page_bytes = SUB_PAGE;

/* Whether all blocks [first, last] are free. */
static bool is_range_free(const struct slab *slab, unsigned first, unsigned last)
{
    for (unsigned word = first / 64; word <= last / 64; word++) {
        uint64_t bits = ~(uint64_t)0;
        if (word == first / 64)
            bits <<= first % 64;
        if (word == last / 64)
            bits &= ~(uint64_t)0 >> (63 - last % 64);
        if ((load(&slab->free_map[word], RELAXED) & bits) != bits)
            return false;
    }
    return true;
}

/* A mask of the sub-pages that lie only in free blocks and are not all dropped yet, by whole OS
 * pages. */
static uint32_t idle_pages(const struct slab *slab, size_t page_bytes)
{
    size_t bytes = class_facts[bin_class(slab->bin)].bytes;
    uint32_t idle = 0;
    if (slab->free_count * bytes < page_bytes)
        return 0;
    for (size_t offset = 0; offset < CHUNK_BYTES; offset += page_bytes) {
        uint32_t mask = (uint32_t)((((uint64_t)1 << page_bytes / SUB_PAGE) - 1)
                                   << offset / SUB_PAGE);
        unsigned first = (unsigned)(offset / bytes);
        unsigned last = (unsigned)size_min((offset + page_bytes - 1) / bytes, slab->capacity - 1u);
        /* Skip pages after the last block: no block to claim, and never touched. */
        if (first < slab->capacity && (slab->dropped & mask) != mask &&
            is_range_free(slab, first, last))
            idle |= mask;
    }
    return idle;
}

/* Moves the free bits of all blocks that touch `pages` from the slab to `claimed`. Returns how
 * many. */
static unsigned claim(struct slab *slab, uint32_t pages, uint64_t *claimed)
{
    size_t bytes = class_facts[bin_class(slab->bin)].bytes;
    unsigned count = 0;
    for (unsigned block = 0; block < slab->capacity; block++) {
        unsigned first = (unsigned)(block * bytes / SUB_PAGE);
        unsigned last = (unsigned)(((block + 1) * bytes - 1) / SUB_PAGE);
        uint32_t touched = (uint32_t)((2ull << last) - (1ull << first));
        if ((touched & pages) != 0 && slab_is_free(slab, block)) {
            claimed[block / 64] |= (uint64_t)1 << block % 64;
            count++;
        }
    }
    unsigned words = class_facts[bin_class(slab->bin)].map_words;
    for (unsigned word = 0; word < words; word++)
        store(&slab->free_map[word], load(&slab->free_map[word], RELAXED) & ~claimed[word],
              RELAXED);
    return count;
}

static uint32_t drop_runs(char *start, uint32_t pages, unsigned *calls)
{
    uint32_t dropped = 0;
    while (pages != 0) {
        unsigned first = bit_lowest(pages);
        unsigned length = bit_lowest(~((uint64_t)pages >> first));
        uint32_t run = (uint32_t)((((uint64_t)1 << length) - 1) << first);
        (*calls)++;
        if (region_purge(start + first * SUB_PAGE, length * SUB_PAGE) == 0)
            dropped |= run;
        pages &= ~run;
    }
    return dropped;
}

/* Frees claimed blocks while a thread that does not run holds the depot: as batches or deferred
 * frees. The slab stays pinned. */
static void defer_claimed(struct depot *depot, const struct slab *slab, const uint64_t *claimed)
{
    size_t bytes = class_facts[bin_class(depot->bin)].bytes, count = 0;
    void *blocks[DEFERRED_MAX];
    for (unsigned block = 0; block < slab->capacity; block++) {
        if ((claimed[block / 64] >> block % 64 & 1) == 0)
            continue;
        blocks[count] = slab_start(slab) + block * bytes;
        block_mark(blocks[count++]); /* blocks in batches are marked */
        if (count == DEFERRED_MAX) {
            depot_put_or_defer(depot, blocks, count);
            count = 0;
        }
    }
    if (count > 0)
        depot_put_or_defer(depot, blocks, count);
}

size_t depot_purge_chunk(size_t chunk, uint32_t tick_oldest, unsigned *calls)
{
    unsigned bin = region_bin(chunk);
    struct depot *depot = bin_class(bin) == 0 ? NULL : depot_of(bin);
    if (depot == NULL)
        return 0;
    uint64_t claimed[CHUNK_BYTES / 8 / 64] = {0};
    unsigned count = 0, first = 0;
    uint32_t pages = 0;
    if (load(&depot->free_blocks, RELAXED) == 0 || !depot_try_lock(depot))
        return 0;
    struct slab *slab = depot_own_slab(depot, chunk);
    if (slab != NULL && slab->free_count > 0 && (int32_t)(tick_oldest - slab->tick) > 0)
        pages = idle_pages(slab, depot_page_bytes);
    if (pages != 0) {
        count = claim(slab, pages, claimed);
        first = (unsigned)(bit_lowest(pages) * SUB_PAGE / class_facts[bin_class(bin)].bytes);
        slab_unmark_from(slab, first);
        slab->free_count = (uint16_t)(slab->free_count - count);
        slab->is_pinned = true;
        depot_count_free(depot, 0, count);
        depot_relist(depot, slab);
    }
    lock_release(&depot->lock, RANK_DEPOT);
    if (pages == 0)
        return 0;
    uint32_t dropped = drop_runs(region_chunk_address(chunk), pages, calls);
    slab_note_dropped(bit_count(dropped));
    if (!depot_lock_or_fail(depot)) {
        defer_claimed(depot, slab, claimed);
        return bit_count(dropped) * (size_t)SUB_PAGE;
    }
    count = 0;
    for (unsigned word = 0; word < class_facts[bin_class(bin)].map_words; word++) {
        uint64_t map = load(&slab->free_map[word], RELAXED);
        count += bit_count(claimed[word] & ~map); /* a double free may have set some */
        store(&slab->free_map[word], map | claimed[word], RELAXED);
    }
    slab_unmark_from(slab, first); /* again: a refill meanwhile did not see the claimed blocks */
    slab->free_count = (uint16_t)(slab->free_count + count);
    slab->is_pinned = false;
    slab->dropped |= dropped;
    depot_count_free(depot, count, 0);
    depot_relist(depot, slab);
    lock_release(&depot->lock, RANK_DEPOT);
    return bit_count(dropped) * (size_t)SUB_PAGE;
}
