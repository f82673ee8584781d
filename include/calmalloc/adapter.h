/*
 * adapter.h: the calls that an adapter for another language makes instead of calm_realloc and
 * calm_free, because its language knows more than C does.
 *
 * A Rust allocator, a C++ one and their like are told the size on every free, by a container that
 * keeps pointers as it got them. What holds for all functions of calmalloc.h holds here, too.
 */
#ifndef CALMALLOC_ADAPTER_H
#define CALMALLOC_ADAPTER_H

#include <calmalloc/calmalloc.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Frees `block`, which was allocated with `size` bytes by any function of this library, and aligned
 * to `alignment`, 1 to 16 for those that take none. NULL is ignored.
 *
 * A size that can be neither this block's nor a shrink in place, a block that is free already and a
 * pointer that was never ours are found as calm_free_aligned_sized finds them. A pointer to the
 * inside of a block, told the size of the whole, is not. Cost: an instruction less than calm_free.
 */
void calm_adapter_free(void *block, size_t size, size_t alignment);

/*
 * As calm_adapter_free, and finds a pointer to the inside of a block, whatever size it is told, and
 * an alignment above 16 that the block's size rules out: for a language's checked mode. Cost: six
 * instructions more than calm_free, and above 16 a call.
 */
void calm_adapter_free_checked(void *block, size_t size, size_t alignment);

/*
 * As calm_realloc, of a block that was last asked for with `size` bytes and no alignment above 16.
 * Neither `block` is NULL nor `new_size` 0. Cost: less than calm_realloc where a small block grows:
 * nothing is looked up to find its size, and `size` bytes are copied, not all that it has.
 */
void *calm_adapter_realloc(void *block, size_t size, size_t new_size);

#ifdef __cplusplus
}
#endif

#endif
