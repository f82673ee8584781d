/*
 * reallocarray.c: reallocarray, which calls whatever realloc the program has.
 *
 * A program may bring malloc and realloc of its own and yet take reallocarray from a library. Its
 * block must then come from the program's realloc, so this file calls that by name, and must not be
 * the one that defines it.
 */
#define _GNU_SOURCE

#include <stdlib.h>

#include "front/front.h"

EXPORT void *reallocarray(void *block, size_t count, size_t size)
{
    size_t product = front_product(count, size);
    return product > PTRDIFF_MAX ? front_fail() : realloc(block, product);
}

EXPORT void *__libc_reallocarray(void *block, size_t count, size_t size);
EXPORT void *__libc_reallocarray(void *block, size_t count, size_t size)
{
    size_t product = front_product(count, size);
    return product > PTRDIFF_MAX ? front_fail() : realloc(block, product);
}
