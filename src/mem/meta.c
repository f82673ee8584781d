/*
 * meta.c: a bump allocator over a few chunks that grow in place, for bookkeeping.
 *
 * Memory is zero because it is fresh. A full chunk is abandoned; its remainder is lost, at most the
 * largest request. A request larger than a chunk gets its own chunk. A chunk's header lies in its
 * first line. Chunks are never unmapped, so a piece has a number: its chunk's index, and its line
 * in the chunk.
 *
 * Owner: any thread, lock-free: docs/protocols/front.md.
 */
#include "mem/meta.h"

#include "base/bits.h"
#include "mem/extent.h"
#include "mem/span.h"
#include "os/os.h"

enum { CHUNKS_MAX = 1024, COMMIT_STEP = 64 * 1024, LINE_NUMBER_BITS = 22 };

struct chunk {
    struct extent extent;
    _Atomic size_t used; /* bytes, with this header */
};
_Static_assert(sizeof(struct chunk) <= CACHE_LINE_BYTES, "line 0 of a chunk, which no piece has");

static struct {
    size_t chunk_bytes;
    size_t page_bytes;
    _Atomic size_t chunk_count;
    struct chunk *_Atomic chunks[CHUNKS_MAX];
} meta;

void meta_start(size_t chunk_bytes, size_t page_bytes)
{
    meta.chunk_bytes = chunk_bytes;
    meta.page_bytes = page_bytes;
}

/* Makes a private chunk with room for at least `bytes`. Only the first one is made during process
 * start. */
static struct chunk *chunk_make(size_t bytes, bool is_first)
{
    struct extent made;
    size_t least = align_up(bytes + CACHE_LINE_BYTES, meta.page_bytes);
    size_t most = size_max(meta.chunk_bytes, least);
    struct extent_plan plan = {.guard = meta.page_bytes,
                               .first = size_max(least, COMMIT_STEP),
                               .most = most,
                               .room = most,
                               .name = is_first ? "calmalloc meta" : NULL};
    if (least < bytes || extent_make(&made, &plan) != 0)
        return NULL;
    struct chunk *chunk = (struct chunk *)(void *)made.start;
    chunk->extent = made;
    store(&chunk->used, CACHE_LINE_BYTES, RELAXED);
    return chunk;
}

/* Ensures a chunk behind the first `count`, made by this thread or another. False: no memory. */
static bool chunk_open(size_t count, size_t bytes)
{
    if (count == CHUNKS_MAX)
        return false;
    struct chunk *chunk = chunk_make(bytes, count == 0), *expected = NULL;
    /* F4 release: publishes the chunk's header; pairs with chunk_at(). */
    if (chunk != NULL && !compare_swap(&meta.chunks[count], &expected, chunk, RELEASE, RELAXED))
        extent_release(&chunk->extent);
    if (load(&meta.chunks[count], RELAXED) == NULL)
        return false;
    size_t seen = count; /* F5: the first thread to get here counts it */
    compare_swap(&meta.chunk_count, &seen, count + 1, RELEASE, RELAXED);
    return true;
}

static struct chunk *chunk_at(size_t index)
{
    return load(&meta.chunks[index], ACQUIRE);
}

/* Whether the chunk has room: then a failed take means that the kernel refused. */
static bool chunk_fits(struct chunk *chunk, size_t bytes, size_t align)
{
    size_t most = chunk->extent.most;
    size_t start = align_up(load(&chunk->used, RELAXED), align);
    return start <= most && bytes <= most - start;
}

static void *chunk_take(struct chunk *chunk, size_t bytes, size_t align)
{
    size_t used = load(&chunk->used, RELAXED);
    for (;;) { /* each turn is another thread's progress */
        size_t start = align_up(used, align);
        if (extent_commit(&chunk->extent, align_up(start + bytes, meta.page_bytes), COMMIT_STEP) !=
            0)
            return NULL;
        if (compare_swap(&chunk->used, &used, start + bytes, RELAXED, RELAXED)) /* F3 */
            return chunk->extent.start + start;
    }
}

static void *take(size_t bytes, size_t align)
{
    for (;;) { /* each turn is another thread's progress */
        size_t count = load(&meta.chunk_count, ACQUIRE);
        struct chunk *chunk = count == 0 ? NULL : chunk_at(count - 1);
        if (chunk == NULL || !chunk_fits(chunk, bytes, align)) {
            if (!chunk_open(count, bytes))
                return NULL;
            continue;
        }
        void *piece = chunk_take(chunk, bytes, align);
        if (piece != NULL || chunk_fits(chunk, bytes, align))
            return piece;
    }
}

void *meta_alloc(size_t bytes, size_t align)
{
    void *piece = take(bytes, align);
    return likely(piece != NULL) || !span_make_room(bytes) ? piece : take(bytes, align);
}

/* Only in the newest chunk, as far as it reaches. */
void meta_prepare(size_t bytes)
{
    size_t count = load(&meta.chunk_count, ACQUIRE);
    if (count == 0)
        return;
    struct chunk *chunk = chunk_at(count - 1);
    size_t used = load(&chunk->used, RELAXED), most = chunk->extent.most;
    size_t needed = size_min(used + size_min(bytes, most), most);
    extent_commit(&chunk->extent, align_down(needed, meta.page_bytes), COMMIT_STEP);
}

uint32_t meta_number(const void *piece)
{
    for (size_t i = load(&meta.chunk_count, ACQUIRE); i-- > 0;) {
        const struct chunk *chunk = chunk_at(i);
        size_t offset = (size_t)((uintptr_t)piece - (uintptr_t)chunk);
        if (offset < load(&chunk->extent.reserved, RELAXED))
            return (uint32_t)(i << LINE_NUMBER_BITS | offset / CACHE_LINE_BYTES);
    }
    return 0;
}

void *meta_at(uint32_t number)
{
    size_t line = number & ((1u << LINE_NUMBER_BITS) - 1);
    return (char *)chunk_at(number >> LINE_NUMBER_BITS) + line * CACHE_LINE_BYTES;
}

size_t meta_mapped_bytes(void)
{
    size_t bytes = 0;
    for (size_t i = 0; i < load(&meta.chunk_count, ACQUIRE); i++)
        bytes += load(&chunk_at(i)->extent.committed, ACQUIRE);
    return bytes;
}

size_t meta_reserved_bytes(void)
{
    size_t bytes = 0;
    for (size_t i = 0; i < load(&meta.chunk_count, ACQUIRE); i++)
        bytes += load(&chunk_at(i)->extent.reserved, RELAXED);
    return bytes;
}

size_t meta_resident_bytes(void)
{
    size_t bytes = 0;
    for (size_t i = 0; i < load(&meta.chunk_count, ACQUIRE); i++)
        bytes += os_resident_bytes(chunk_at(i), load(&chunk_at(i)->extent.committed, ACQUIRE));
    return bytes;
}

const struct watch_fact meta_facts[] = {
    FACT_AT("meta.chunks", meta.chunks),
    FACT_AT("meta.count", meta.chunk_count),
    FACTS_END,
};
