/*
 * core.c: the allocator in one file, and what a Zig allocator's four functions do with it.
 *
 * The functions below take their arguments in the order of std.mem.Allocator.VTable, so that the
 * Zig ones do nothing but jump here. The site is who called those. Without libc, alone.h stands for
 * the few functions of it that the allocator uses.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#ifdef CALM_ALONE
#include "alone.h"
#endif
#include "calmalloc.c"

enum {
    ALIGN_LOG2_ANY = 3, /* every block has it                */
    ALIGN_LOG2_MOST = 4 /* all but those of 8 bytes have it  */
};

/* Jumped to, so that its caller is that of calm_zig_alloc, which then needs no frame to tell it. */
static NOINLINE void *zig_alloc_slow(void *self, size_t size)
{
    (void)self;
    return front_alloc_slow(size, CALLER, CALLER_FRAME);
}

/* Of any alignment. NULL: no memory. */
void *calm_zig_alloc_aligned(void *self, size_t size, uint8_t align_log2)
{
    (void)self;
    if (align_log2 <= ALIGN_LOG2_ANY || (align_log2 == ALIGN_LOG2_MOST && size > 8))
        return front_alloc(size, CALLER, CALLER_FRAME);
    return front_aligned((size_t)1 << align_log2, size, CALLER, CALLER_FRAME);
}

/* Of an alignment of at most 2 to the ALIGN_LOG2_ANY. NULL: no memory. */
void *calm_zig_alloc(void *self, size_t size)
{
    void *block = site_alloc_fast(size, CALLER);
    if (likely(block != NULL))
        return block;
    __attribute__((musttail)) return zig_alloc_slow(self, size);
}

/* Whether the block has room for `new_size`, without keeping more than twice that. */
bool calm_zig_resize(void *self, void *block, size_t size, uint8_t align_log2, size_t new_size)
{
    (void)self, (void)size, (void)align_log2;
    size_t have = heap_usable(block);
    return new_size <= have && (new_size >= have / 2 || heap_good_size(new_size) == have);
}

/* The block, grown or shrunk, or moved. NULL: it is as before, and the caller is to copy it. */
void *calm_zig_remap(void *self, void *block, size_t size, uint8_t align_log2, size_t new_size)
{
    bool is_aligned = align_log2 > ALIGN_LOG2_ANY &&
                      (align_log2 > ALIGN_LOG2_MOST || size <= 8 || new_size <= 8);
    if (unlikely(is_aligned))
        return calm_zig_resize(self, block, size, align_log2, new_size) ? block : NULL;
    return calm_adapter_realloc(block, size, new_size);
}

void calm_zig_free(void *self, void *block, size_t size, uint8_t align_log2)
{
    (void)self;
    heap_free_own(block, size, (size_t)1 << align_log2, SIZE_FIRST);
}
