/*
 * reallocarray.c: reallocarray, which calls the program's realloc.
 *
 * A program may define malloc and realloc but take reallocarray from a library. The block must then
 * come from the program's realloc. So this file calls realloc by name and must not define it.
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
