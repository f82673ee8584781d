/*
 * large.h: blocks above MEDIUM_MAX: whole units of the region, grown in place, moved by the kernel when huge.
 */
#ifndef CALM_CORE_LARGE_H
#define CALM_CORE_LARGE_H

#include "base/attr.h"
#include "base/check.h"

/* Allocates `bytes` <= PTRDIFF_MAX aligned to `align`, a power of two. NULL: no memory. Any thread. */
void *large_alloc(size_t bytes, size_t align, bool is_zeroed);

/* Frees the large block that begins at `block`. */
void large_free(void *block);

/* Changes the size of a large block to one that is still large. NULL: no memory, the block is untouched. */
void *large_realloc(void *block, size_t bytes);

/* Usable bytes of a large block. */
size_t large_usable(const void *block);

/* Usable bytes that large_alloc(bytes) gives. Pre: bytes <= PTRDIFF_MAX. */
size_t large_good_size(size_t bytes);

/* Bytes of the large block that address lies in, and how far inside. For reports: walks back to its head. */
size_t large_around(const void *address, size_t *inside);

/* Live large blocks and their usable bytes. */
size_t large_count(void);
size_t large_bytes(void);

#endif
