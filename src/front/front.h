/*
 * front.h: the public functions' common halves, for api.c and for libc, which knows the caller's
 * address itself.
 *
 * A function takes the return address that names the site, and the address of the caller's frame
 * (site/second.h). On failure these set errno, as the standard names must.
 */
#ifndef CALM_FRONT_FRONT_H
#define CALM_FRONT_FRONT_H

#include "core/limit.h"
#include "site/second.h"

/* The address the enclosing exported function returns to. */
#define CALLER RETURN_ADDRESS

enum front_error {
    FRONT_EPERM = 1,
    FRONT_ENOENT = 2,
    FRONT_ENOMEM = 12,
    FRONT_EBUSY = 16,
    FRONT_EEXIST = 17,
    FRONT_EINVAL = 22
};

/* Applies options that were changed while the heap runs. */
void front_options_changed(void);

/* Notes which file an option's descriptor is, unless 0. */
void front_note_file(int fd, uint64_t identity[2]);

/* Whether an option's descriptor, unless 0, is still the file that it was: a program may close
 * it and reuse the number. */
bool front_is_file(int fd, const uint64_t identity[2]);

/* Counts a failed request, sets ENOMEM, returns NULL. */
void *front_fail(void);
uint64_t front_failed_calls(void);

void *front_realloc(void *block, size_t bytes, const void *site, const void *frame);
void *front_aligned(size_t align, size_t bytes, const void *site, const void *frame);
void *front_zeroed(size_t count, size_t bytes, const void *site, const void *frame);

/* The product, or SIZE_MAX, which no request satisfies, when it overflows. */
ALWAYS_INLINE size_t front_product(size_t count, size_t bytes)
{
    size_t product;
    return __builtin_mul_overflow(count, bytes, &product) ? SIZE_MAX : product;
}

/* The rest of front_alloc; never inlined, so that the fast path needs no stack frame. It looks the
 * cohort up again, so that the fast path need not keep it. */
void *front_alloc_slow(size_t bytes, const void *site, const void *frame);

/* The same of a request that looked in a cache and found nothing. */
void *front_alloc_missed(size_t bytes, const void *site, const void *frame, struct cache_miss at);

ALWAYS_INLINE void *front_alloc(size_t bytes, const void *site, const void *frame)
{
    struct cache_miss at;
    if (unlikely(bytes > SMALL_MAX))
        return front_alloc_slow(bytes, site, frame);
    void *block = site_alloc_look(bytes, site, &at);
    return likely(block != NULL) ? block : front_alloc_missed(bytes, site, frame, at);
}

/* front_alloc(bytes, CALLER), in an exported function. */
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
