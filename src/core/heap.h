/*
 * heap.h: the general heap as one interface: what front and libc call.
 *
 * The inline halves are the fast paths. The caller's cohort comes in as `cohort_offset`, the offset
 * of the cohort's entries in a cache (site/site.h looks it up). Functions return NULL when there is
 * no memory; errno is not touched.
 */
#ifndef CALM_CORE_HEAP_H
#define CALM_CORE_HEAP_H

#include "base/check.h"
#include "core/cache.h"
#include "core/home.h"
#include "core/rows.h"
#include "os/os.h"

/* What the options decide; filled before heap_start. */
struct heap_settings {
    bool purges_when_idle;
    uint32_t purge_delay_ms, cold_ms;
    size_t cache_bytes_each;
    size_t limit_bytes, soft_limit_bytes; /* 0: none */
    bool is_limited_by_group;             /* as well    */
    enum cores_use cores;
    unsigned shards;        /* 0: as the machine has them */
    size_t huge_from_bytes; /* 0: no huge pages           */
    bool stops_on_misuse;
    bool stops_on_foreign;
};

/* Called once, by whichever thread needs the heap first, before anything is allocated. Front
 * implements it. */
void heap_configure(const struct os_facts *facts, struct heap_settings *out);

/* Applies what may change while the heap runs. */
void heap_apply(const struct heap_settings *settings);

/* Makes the heap ready; the first request does it by itself. False: no memory, or the thread that
 * starts it is stopped there; a later request tries again. */
bool heap_start(void);

/* Installs the hooks for thread exit and fork. From the library's constructor. */
void heap_install_hooks(void);

/* Those for forks alone: before anybody else's, also before the heap has started. */
void heap_install_fork_hooks(void);

/* What heap_alloc_fast could not do: misses, medium and large sizes. */
void *heap_alloc_slow(size_t bytes, uint32_t cohort_offset);
void heap_free_odd(void *block);

/* A request above MEDIUM_MAX where the shelf has a block; NULL says nothing but that
 * heap_alloc_slow must be asked. */
void *heap_find_large(size_t bytes, uint32_t cohort_offset);

/* Zeroed; aligned, to a power of two. Pre: bytes <= PTRDIFF_MAX. */
void *heap_alloc_zeroed(size_t bytes, uint32_t cohort_offset);
void *heap_alloc_aligned(size_t bytes, size_t align, uint32_t cohort_offset);

/* NULL: no memory, or a bad pointer that was reported; the block is untouched. Pre: block != NULL,
 * bytes > 0. If a sample is wanted the result is a sampled block (core/sampled.h) where memory
 * allows it. Where cohorts are apart the result is of the cohort at the offset. */
void *heap_realloc(void *block, size_t bytes, uint32_t cohort_offset, bool is_sampled);

/* As heap_free_sized, for all that its table does not accept. heap_free_over is told by how much
 * the size exceeds the least one of the block's class. */
void heap_free_sized_odd(void *block, size_t bytes, size_t align);
void heap_free_over(void *block, size_t over, size_t align);

/* The same, told in C23's order, or the alignment's logarithm, so that a caller need not move or
 * turn its arguments. */
void heap_free_aligned_sized_odd(void *block, size_t align, size_t bytes);
void heap_free_aligned_over(void *block, size_t align, size_t over);
void heap_free_log2_odd(void *block, size_t bytes, unsigned align_log2);
void heap_free_log2_over(void *block, size_t over, unsigned align_log2);

/* 0 for NULL and, reported, for what is not a block. */
size_t heap_usable(const void *block);
size_t heap_good_size(size_t bytes);

/* Purges all it can reach; whether anything went back. */
bool heap_trim(void);

/* Empties the calling thread's cache, and gives back all that is due. */
void heap_idle(void);

verdict heap_verify(void);

/* A small block if the cache holds one; NULL says nothing but that heap_alloc_slow must be asked.
 */
ALWAYS_INLINE void *heap_alloc_fast(size_t bytes, uint32_t cohort_offset)
{
    if (unlikely(bytes > SMALL_MAX))
        return NULL;
    return cache_pop(cohort_offset + of_thread.small[(bytes + 7) >> 3]);
}

ALWAYS_INLINE void heap_free(void *block)
{
    size_t chunk = region_chunk(block);
    if (unlikely(!region_holds(chunk))) {
        heap_free_odd(block);
        return;
    }
    size_t bin = region_bin(chunk);
    computed_here(chunk); /* twice scaled is less than kept scaled */
    if (CHECKS >= 1) {
        /* One product tells slabs from all else, starts of blocks from their insides, and blocks
         * that were handed out from those that never were. */
        bool is_block = class_frees_block(bin_class(bin), chunk, (uint16_t)(uintptr_t)block);
        if (unlikely(!is_block || block_looks_free(block))) {
            heap_free_odd(block);
            return;
        }
        block_mark(block);
    } else if (unlikely(bin_class(bin) == 0)) {
        heap_free_odd(block);
        return;
    }
    cache_free(block, bin);
}

/* An alignment as a caller tells it: in bytes, 1 when unknown; as bytes, before the size; or as its
 * logarithm. It goes out as it came in, so that nothing is done to it on the fast path. */
enum told_how { TOLD_BYTES, TOLD_BYTES_FIRST, TOLD_LOG2 };

struct told_align {
    enum told_how how;
    size_t bytes;
    unsigned log2;
};

/* The ways out of heap_free_told, which are jumps. */
ALWAYS_INLINE void heap_told_odd(void *block, size_t bytes, struct told_align align)
{
    switch (align.how) {
    case TOLD_BYTES: heap_free_sized_odd(block, bytes, align.bytes); break;
    case TOLD_BYTES_FIRST: heap_free_aligned_sized_odd(block, align.bytes, bytes); break;
    case TOLD_LOG2: heap_free_log2_odd(block, bytes, align.log2); break;
    }
}

ALWAYS_INLINE void heap_told_over(void *block, size_t over, struct told_align align)
{
    switch (align.how) {
    case TOLD_BYTES: heap_free_over(block, over, align.bytes); break;
    case TOLD_BYTES_FIRST: heap_free_aligned_over(block, align.bytes, over); break;
    case TOLD_LOG2: heap_free_log2_over(block, over, align.log2); break;
    }
}

/* As heap_free, once `bytes` and the alignment were found to fit the block. With `is_start` the
 * caller vouches that a block begins here, if one of that size lies here. */
ALWAYS_INLINE void heap_free_told(void *block, size_t bytes, struct told_align align, bool is_start)
{
    size_t chunk = region_chunk(block);
    if (unlikely(!region_holds(chunk))) {
        heap_told_odd(block, bytes, align);
        return;
    }
    size_t bin = region_bin(chunk);
    computed_here(bin); /* in a register that it can stay in */
    unsigned class = bin_class(bin);
    size_t over = bytes - class_told.least[class];
    if (unlikely(over >= class_told.count[class])) {
        heap_told_over(block, over, align); /* not `bytes`: it need not be kept */
        return;
    }
    bool is_block = is_start || class_frees_block(class, chunk, (uint16_t)(uintptr_t)block);
    if (unlikely(!is_block || block_looks_free(block))) {
        heap_free_odd(block);
        return;
    }
    block_mark(block);
    cache_free(block, bin);
}

/* Alignments up to this need no asking for, and are not looked at. */
enum { ALIGN_NATURAL = 16 };

ALWAYS_INLINE void heap_free_sized(void *block, size_t bytes, size_t align)
{
    if (CHECKS >= 1 && unlikely(align > ALIGN_NATURAL))
        heap_free_sized_odd(block, bytes, align);
    else if (CHECKS >= 1)
        heap_free_told(block, bytes, (struct told_align){.bytes = align}, false);
    else
        heap_free(block);
}

/* As heap_free_sized, for who keeps pointers as it got them: that the size fits stands for the look
 * whether a block begins here, but where the heap checks itself. Cost: less than heap_free. */
ALWAYS_INLINE void heap_free_own(void *block, size_t bytes, size_t align)
{
    if (CHECKS >= 1)
        heap_free_told(block, bytes, (struct told_align){.bytes = align}, CHECKS < 2);
    else
        heap_free(block);
}

/* As heap_free_own, told in C23's order. */
ALWAYS_INLINE void heap_free_own_aligned(void *block, size_t align, size_t bytes)
{
    if (CHECKS >= 1)
        heap_free_told(block, bytes, (struct told_align){.how = TOLD_BYTES_FIRST, .bytes = align},
                       CHECKS < 2);
    else
        heap_free(block);
}

/* As heap_free_own, told the alignment's logarithm. */
ALWAYS_INLINE void heap_free_own_log2(void *block, size_t bytes, unsigned align_log2)
{
    if (CHECKS >= 1)
        heap_free_told(block, bytes, (struct told_align){.how = TOLD_LOG2, .log2 = align_log2},
                       CHECKS < 2);
    else
        heap_free(block);
}

#endif
