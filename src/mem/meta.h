/*
 * meta.h: memory for our own bookkeeping, far from the user's. It is never given back, only reused
 * by its owner.
 */
#ifndef CALM_MEM_META_H
#define CALM_MEM_META_H

#include "base/facts.h"

/* Prepares `chunk_bytes`, the address space taken at a time. */
void meta_start(size_t chunk_bytes, size_t page_bytes);

/* `bytes` of zeroed memory aligned to `align` (a power of two, at most a page), or NULL. Any
 * thread, which waits for none. */
void *meta_alloc(size_t bytes, size_t align);

/* Has `bytes` more be readable and writable than are in use, if they can be: a limit that the heap
 * reaches must leave room for what keeps its books. */
void meta_prepare(size_t bytes);

/* The number of a piece that is aligned to a line and near the start of its chunk, as pieces no
 * larger than a chunk are; never 0. And the piece. */
uint32_t meta_number(const void *piece);
void *meta_at(uint32_t number);

/* Bytes readable and writable, and bytes of them that are resident. */
size_t meta_mapped_bytes(void);
size_t meta_resident_bytes(void);
size_t meta_reserved_bytes(void);

extern const struct watch_fact meta_facts[];

#endif
