/*
 * adapter.h: calls for an adapter for another language, in place of calm_realloc and calm_free,
 * where the language knows more than C does.
 *
 * A Rust or C++ allocator gets the size with every free, from a container that keeps pointers
 * unchanged. The rules for all functions of calmalloc.h hold here, too.
 */
#ifndef CALMALLOC_ADAPTER_H
#define CALMALLOC_ADAPTER_H

#include <calmalloc/calmalloc.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Frees `block`, which any function of this library allocated with `size` bytes and `alignment`: 1
 * to 16 if the function takes no alignment. NULL is ignored.
 *
 * A size that is neither this block's nor a shrink in place, a block that is already free and a
 * pointer that was never ours are found as by calm_free_aligned_sized. A pointer to the inside of a
 * block, given with the whole block's size, is not found. Cost: an instruction less than calm_free.
 */
void calm_adapter_free(void *block, size_t size, size_t alignment);

/*
 * As calm_adapter_free, and also finds a pointer to the inside of a block, whatever size is given,
 * and an alignment above 16 that the block's size rules out: for a language's checked mode. Cost:
 * six instructions more than calm_free, and above 16 a call.
 */
void calm_adapter_free_checked(void *block, size_t size, size_t alignment);

/*
 * As calm_realloc, for a block last requested with `size` bytes and no alignment above 16. `block`
 * is not NULL and `new_size` is not 0. Cost: less than calm_realloc where a small block grows: no
 * look-up of the block's size, and a copy of `size` bytes, not of all usable ones.
 */
void *calm_adapter_realloc(void *block, size_t size, size_t new_size);

#ifdef __cplusplus
}
#endif

#endif
