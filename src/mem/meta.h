/*
 * meta.h: memory for our own bookkeeping, far from the user's. It is never given back, only reused
 * by its owner.
 */
#ifndef CALM_MEM_META_H
#define CALM_MEM_META_H

#include "base/attr.h"

/* Prepares `chunk_bytes`, the address space taken at a time. */
void meta_start(size_t chunk_bytes, size_t page_bytes);

/* `bytes` of zeroed memory aligned to `align` (a power of two, at most a page), or NULL. Any
 * thread. */
void *meta_alloc(size_t bytes, size_t align);

/* The same, or NULL when another thread is at it. Waits for nobody. */
void *meta_try_alloc(size_t bytes, size_t align);

/* Bytes readable and writable, and bytes of them that are resident. */
size_t meta_mapped_bytes(void);
size_t meta_resident_bytes(void);
size_t meta_reserved_bytes(void);

/* Held across fork, so that the child finds the allocator whole. */
void meta_fork_lock(void);
void meta_fork_unlock(void);
void meta_fork_reset(void);

#endif
