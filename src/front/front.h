/*
 * front.h: the parts of the public functions that api.c and libc share.
 *
 * Each function takes the return address that names the site, and the address of the caller's frame
 * (site/second.h). On failure each sets errno, as the standard functions must.
 */
#ifndef CALM_FRONT_FRONT_H
#define CALM_FRONT_FRONT_H

#include "core/limit.h"
#include "site/second.h"

/* The address that the enclosing exported function returns to. */
#define CALLER RETURN_ADDRESS

enum front_error {
    FRONT_EPERM = 1,
    FRONT_ENOENT = 2,
    FRONT_ENOMEM = 12,
    FRONT_EBUSY = 16,
    FRONT_EEXIST = 17,
    FRONT_EINVAL = 22
};

/* Applies options that changed while the heap runs. */
void front_options_changed(void);

/* Records the identity of the file behind an option's descriptor. Does nothing for 0. */
void front_note_file(int fd, uint64_t identity[2]);

/* Whether an option's descriptor still refers to the recorded file; false for 0. A program may
 * close and reuse the number. */
bool front_is_file(int fd, const uint64_t identity[2]);

/* Counts a failed request, sets ENOMEM, returns NULL. */
void *front_fail(void);
uint64_t front_failed_calls(void);

void *front_realloc(void *block, size_t bytes, const void *site, const void *frame);
void *front_aligned(size_t align, size_t bytes, const void *site, const void *frame);
void *front_zeroed(size_t count, size_t bytes, const void *site, const void *frame);

/* The product, or on overflow SIZE_MAX, which no request satisfies. */
ALWAYS_INLINE size_t front_product(size_t count, size_t bytes)
{
    size_t product;
    return __builtin_mul_overflow(count, bytes, &product) ? SIZE_MAX : product;
}

/* Slow path of front_alloc. Never inlined, so the fast path needs no stack frame. Looks up the
 * cohort again, so the fast path need not keep it. */
void *front_alloc_slow(size_t bytes, const void *site, const void *frame);

/* Slow path of front_alloc after a cache miss, which `at` describes. */
void *front_alloc_missed(size_t bytes, const void *site, const void *frame, struct cache_miss at);

ALWAYS_INLINE void *front_alloc(size_t bytes, const void *site, const void *frame)
{
    struct cache_miss at;
    if (unlikely(bytes > SMALL_MAX))
        return front_alloc_slow(bytes, site, frame);
    void *block = site_alloc_look(bytes, site, &at);
    return likely(block != NULL) ? block : front_alloc_missed(bytes, site, frame, at);
}

/* front_alloc(bytes, CALLER). Use only in an exported function. */
ALWAYS_INLINE void *front_alloc_here(size_t bytes)
{
    struct cache_miss at;
    if (unlikely(bytes > SMALL_MAX))
        return front_alloc_slow(bytes, RETURN_ADDRESS_AGAIN, CALLER_FRAME);
    void *block = site_alloc_look(bytes, CALLER, &at);
    if (likely(block != NULL))
        return block;
    return front_alloc_missed(bytes, RETURN_ADDRESS_AGAIN, CALLER_FRAME, at);
}

#endif
