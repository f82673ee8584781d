/*
 * heap.h: the general heap as one interface for front and libc.
 *
 * The inline functions are the fast paths. `cohort_offset` is the offset of the caller's cohort's
 * entries in a cache (site/site.h looks it up). Functions return NULL when there is no memory;
 * errno is not touched.
 */
#ifndef CALM_CORE_HEAP_H
#define CALM_CORE_HEAP_H

#include "base/check.h"
#include "core/cache.h"
#include "core/home.h"
#include "core/rows.h"
#include "os/os.h"

/* Settings from the options; heap_configure() fills them. */
struct heap_settings {
    bool purges_on_free;
    uint32_t purge_delay_ms, cold_ms;
    size_t cache_bytes_each;
    size_t limit_bytes, soft_limit_bytes; /* 0: none */
    bool is_limited_by_group;             /* cgroup limits apply too */
    enum cores_use cores;
    unsigned shards;        /* 0: as the CPU count suggests */
    size_t huge_from_bytes; /* 0: no huge pages */
    bool has_huge_blocks;   /* whatever the system's setting is */
    bool stops_on_misuse;
    bool stops_on_foreign;
};

/* Called by the thread that starts the heap, before any allocation. Front implements it. */
void heap_configure(const struct os_facts *facts, struct heap_settings *out);

/* Applies the settings that can change while the heap runs. */
void heap_apply(const struct heap_settings *settings);

/* Starts the heap if needed; requests call it. False: no memory, or the starting thread is stopped;
 * a later request tries again. */
bool heap_start(void);

/* Installs the hooks for thread exit and fork. Called by the library's constructor. */
void heap_install_hooks(void);

/* Installs only the fork hooks, ahead of any other library's; the heap need not have started. */
void heap_install_fork_hooks(void);

/* heap_alloc_slow serves what heap_alloc_fast cannot: misses, medium and large sizes.
 * heap_free_slow is the slow free. */
void *heap_alloc_slow(size_t bytes, uint32_t cohort_offset);
void heap_free_slow(void *block);

/* Serves a request above MEDIUM_MAX from the large cache. NULL: call heap_alloc_slow. */
void *heap_find_large(size_t bytes, uint32_t cohort_offset);

/* Zeroed memory; memory aligned to a power of two. Also NULL when bytes > PTRDIFF_MAX. */
void *heap_alloc_zeroed(size_t bytes, uint32_t cohort_offset);
void *heap_alloc_aligned(size_t bytes, size_t align, uint32_t cohort_offset);

/* NULL: no memory, or a bad pointer, which is reported; the block is unchanged. Pre: block != NULL,
 * bytes > 0. With `is_sampled` the result is a sampled block (core/sampled.h) where memory allows.
 * Where cohorts are separate, the result is of the cohort at the offset. */
void *heap_realloc(void *block, size_t bytes, uint32_t cohort_offset, bool is_sampled);

/* Slow paths of heap_free_sized, for frees that class_given does not accept. The second has the
 * arguments in C23's order, so that a caller passes its arguments on where they are. */
void heap_free_sized_slow(void *block, size_t bytes, size_t align);
void heap_free_aligned_slow(void *block, size_t align, size_t bytes);

/* Usable bytes. 0 for NULL, and for a bad pointer, which is reported. */
size_t heap_usable(const void *block);
size_t heap_good_size(size_t bytes);

/* Purges all free memory within reach. Returns whether any was purged. */
bool heap_trim(void);

/* Unmaps free memory that takes none, but for short pieces. */
void heap_unmap_clean(void);

/* In a fork's child, before it allocates. */
void heap_fork_reset(void);

/* Empties the calling thread's cache and purges all that is due. */
void heap_idle(void);

verdict heap_verify(void);

/* A small block if the cache holds one. NULL: call heap_alloc_slow. */
ALWAYS_INLINE void *heap_alloc_fast(size_t bytes, uint32_t cohort_offset)
{
    if (unlikely(bytes > SMALL_MAX))
        return NULL;
    return cache_pop(cohort_offset + of_thread.small[(bytes + 7) >> 3]);
}

/* Whether a slab's block begins at an address of the region and, with checks, looks live. One
 * product rejects what is not in a slab, a block's interior, and a block that was never handed
 * out. */
ALWAYS_INLINE bool heap_looks_live(const void *block, size_t chunk, size_t bin)
{
    if (CHECKS == 0)
        return class_begins_block(bin_class(bin), (uint16_t)(uintptr_t)block);
    return class_accepts_free(bin_class(bin), chunk, (uint16_t)(uintptr_t)block) &&
           !block_looks_free(block);
}

ALWAYS_INLINE void heap_free(void *block)
{
    size_t chunk = region_chunk(block);
    if (unlikely(!region_holds(chunk))) {
        heap_free_slow(block);
        return;
    }
    size_t bin = region_bin(chunk);
    computed_here(chunk); /* scaling twice costs less than keeping the result */
    if (CHECKS >= 1) {
        if (unlikely(!heap_looks_live(block, chunk, bin))) {
            heap_free_slow(block);
            return;
        }
        block_mark(block);
    } else if (unlikely(bin_class(bin) == 0)) {
        heap_free_slow(block);
        return;
    }
    cache_free(block, bin);
}

/* Where a caller has the alignment: behind the size, or as in C23 before the size. */
enum size_order { SIZE_FIRST, ALIGN_FIRST };

ALWAYS_INLINE void heap_free_given_slow(void *block, size_t bytes, size_t align,
                                        enum size_order order)
{
    if (order == ALIGN_FIRST)
        heap_free_aligned_slow(block, align, bytes);
    else
        heap_free_sized_slow(block, bytes, align);
}

/* heap_free, once `bytes` fits the block's class; the fast path does not check the alignment.
 * `is_start`: the caller vouches that a block of this size, if any, begins here. */
ALWAYS_INLINE void heap_free_given(void *block, size_t bytes, size_t align, enum size_order order,
                                   bool is_start)
{
    size_t chunk = region_chunk(block);
    if (unlikely(!region_holds(chunk))) {
        heap_free_given_slow(block, bytes, align, order);
        return;
    }
    size_t bin = region_bin(chunk);
    computed_here(bin); /* keeps it in one register */
    size_t class = bin_class(bin);
    size_t over = bytes - class_given.least[class];
    if (unlikely(over >= class_given.count[class])) {
        computed_here(over); /* the fast path need not keep `bytes` */
        computed_here(class);
        heap_free_given_slow(block, over + class_given.least[class], align, order);
        return;
    }
    bool is_block = is_start ||
                    class_accepts_free((unsigned)class, chunk, (uint16_t)(uintptr_t)block);
    if (unlikely(!is_block || block_looks_free(block))) {
        heap_free_slow(block);
        return;
    }
    block_mark(block);
    cache_free(block, bin);
}

/* Alignments up to this are malloc's own; frees do not check them. */
enum { ALIGN_NATURAL = 16 };

ALWAYS_INLINE void heap_free_sized(void *block, size_t bytes, size_t align)
{
    if (CHECKS >= 1 && unlikely(align > ALIGN_NATURAL))
        heap_free_sized_slow(block, bytes, align);
    else if (CHECKS >= 1)
        heap_free_given(block, bytes, align, SIZE_FIRST, false);
    else
        heap_free(block);
}

/* heap_free_sized for a caller that frees only pointers it got from the heap: a fitting size
 * replaces the check that a block begins here, except with CHECKS 2. Cost: less than heap_free. */
ALWAYS_INLINE void heap_free_own(void *block, size_t bytes, size_t align, enum size_order order)
{
    if (CHECKS >= 1)
        heap_free_given(block, bytes, align, order, CHECKS < 2);
    else
        heap_free(block);
}

#endif
