/*
 * meta.h: memory for the allocator's bookkeeping, far from the user's blocks. Never unmapped. Only
 * a piece's owner reuses or purges the piece.
 */
#ifndef CALM_MEM_META_H
#define CALM_MEM_META_H

#include "base/facts.h"

/* Sets `chunk_bytes`, the address space of one chunk. */
void meta_start(size_t chunk_bytes, size_t page_bytes);

/* Returns `bytes` of zeroed memory aligned to `align` (a power of two, at most a page), or NULL.
 * Any thread; waits only where memory is short. */
void *meta_alloc(size_t bytes, size_t align);

/* Tries to commit `bytes` beyond those in use, so that bookkeeping still has memory when the heap
 * reaches a limit. */
void meta_prepare(size_t bytes);

/* meta_number(): number of a piece, never 0. The piece must be cache-line aligned and near the
 * start of its chunk; pieces no larger than a chunk are. meta_at(): the piece of a number. */
uint32_t meta_number(const void *piece);
void *meta_at(uint32_t number);

/* Bytes that are readable and writable; resident bytes among them; reserved bytes. */
size_t meta_mapped_bytes(void);
size_t meta_resident_bytes(void);
size_t meta_reserved_bytes(void);

extern const struct watch_fact meta_facts[];

#endif
