/*
 * early_store.h: for wrappers that are preloaded before an allocator: what the loader asks for
 * while the wrapper looks up the next library's functions. Never given back.
 *
 * Owner: the first call of the process, which comes before any second thread.
 */
#ifndef CALM_EARLY_STORE_H
#define CALM_EARLY_STORE_H

#include <stdbool.h>
#include <stddef.h>

enum { EARLY_STORE_BYTES = 64 * 1024 };

static _Alignas(16) char early_store[EARLY_STORE_BYTES];
static size_t early_store_used;

/* Zeroed; NULL when the store is used up. */
static void *early_store_take(size_t bytes)
{
    size_t rounded = (bytes + 15) & ~(size_t)15;
    if (rounded < bytes || rounded > EARLY_STORE_BYTES - early_store_used)
        return NULL;
    void *block = early_store + early_store_used;
    early_store_used += rounded;
    return block;
}

static bool early_store_holds(const void *block)
{
    return (const char *)block >= early_store &&
           (const char *)block < early_store + EARLY_STORE_BYTES;
}

/* How many bytes may be read from the block on, at most. */
static size_t early_store_readable(const void *block)
{
    return (size_t)(early_store + EARLY_STORE_BYTES - (const char *)block);
}

#endif
