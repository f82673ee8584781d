/*
 * meta.c: a bump allocator over a few reserved chunks, for bookkeeping.
 *
 * Memory is zero because it is fresh. A chunk that is full is left behind; its remainder is lost,
 * which is bounded by the largest request. A request larger than a chunk gets a chunk of its own.
 *
 * Owner: any thread, under meta.lock (RANK_META), which is held across the kernel calls of a
 * growth; nobody asks for metadata while holding a depot or the spans.
 */
#include "mem/meta.h"

#include "base/bits.h"
#include "mem/extent.h"
#include "os/lock.h"
#include "os/os.h"

enum { CHUNKS_MAX = 1024, COMMIT_STEP = 64 * 1024 };

static struct {
    struct lock lock;
    size_t chunk_bytes;
    size_t page_bytes;
    size_t used; /* bytes of the newest chunk */
    _Atomic size_t chunk_count;
    struct extent chunks[CHUNKS_MAX];
} meta;

void meta_start(size_t chunk_bytes, size_t page_bytes)
{
    meta.chunk_bytes = chunk_bytes;
    meta.page_bytes = page_bytes;
}

static bool chunk_open(size_t bytes)
{
    size_t count = load(&meta.chunk_count, RELAXED);
    if (count == CHUNKS_MAX)
        return false;
    size_t size = size_max(meta.chunk_bytes, align_up(bytes, meta.page_bytes));
    if (extent_reserve(&meta.chunks[count], size, meta.page_bytes, "calmalloc meta") != 0 &&
        extent_reserve(&meta.chunks[count], align_up(bytes, meta.page_bytes), meta.page_bytes,
                       "calmalloc meta") != 0)
        return false;
    meta.used = 0;
    store(&meta.chunk_count, count + 1, RELEASE);
    return true;
}

/* Whether the newest chunk has room; only then does a failure to take mean that the kernel refused.
 */
static bool chunk_fits(size_t bytes, size_t align)
{
    size_t count = load(&meta.chunk_count, RELAXED);
    return count > 0 && align_up(meta.used, align) + bytes <= meta.chunks[count - 1].reserved;
}

static void *chunk_take(size_t bytes, size_t align)
{
    struct extent *chunk = &meta.chunks[load(&meta.chunk_count, RELAXED) - 1];
    size_t start = align_up(meta.used, align);
    if (extent_commit(chunk, align_up(start + bytes, meta.page_bytes), COMMIT_STEP) != 0)
        return NULL;
    meta.used = start + bytes;
    return chunk->start + start;
}

/* Under the lock, which it releases. */
static void *alloc_locked(size_t bytes, size_t align)
{
    bool is_room = chunk_fits(bytes, align) || chunk_open(bytes);
    void *result = is_room ? chunk_take(bytes, align) : NULL;
    lock_release(&meta.lock, RANK_META);
    return result;
}

void *meta_alloc(size_t bytes, size_t align)
{
    lock_acquire(&meta.lock, RANK_META);
    return alloc_locked(bytes, align);
}

void *meta_try_alloc(size_t bytes, size_t align)
{
    return lock_try_briefly(&meta.lock, RANK_META) ? alloc_locked(bytes, align) : NULL;
}

size_t meta_mapped_bytes(void)
{
    size_t bytes = 0;
    for (size_t i = 0; i < load(&meta.chunk_count, ACQUIRE); i++)
        bytes += load(&meta.chunks[i].committed, ACQUIRE);
    return bytes;
}

size_t meta_reserved_bytes(void)
{
    size_t bytes = 0;
    for (size_t i = 0; i < load(&meta.chunk_count, ACQUIRE); i++)
        bytes += meta.chunks[i].reserved;
    return bytes;
}

size_t meta_resident_bytes(void)
{
    size_t bytes = 0;
    for (size_t i = 0; i < load(&meta.chunk_count, ACQUIRE); i++)
        bytes += os_resident_bytes(meta.chunks[i].start, load(&meta.chunks[i].committed, ACQUIRE));
    return bytes;
}

void meta_fork_lock(void)
{
    lock_acquire(&meta.lock, RANK_META);
}

void meta_fork_unlock(void)
{
    lock_release(&meta.lock, RANK_META);
}

void meta_fork_reset(void)
{
    lock_reset(&meta.lock);
}
