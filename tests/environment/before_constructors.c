/*
 * before_constructors.c: the heap is used before any constructor has run, from the executable's
 * .preinit_array, which the dynamic linker runs first of all; what is allocated there is used by
 * constructors and by main.
 */
#define _GNU_SOURCE

#include "check.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 300 };

static void *blocks[BLOCKS];
static int stage;

static size_t size_of(size_t i)
{
    return i % 30 == 0 ? 70000 * (i / 30 + 1) : 1 + i * 11;
}

static void renew_blocks(int expected_stage)
{
    if (stage != expected_stage)
        abort();
    stage++;
    for (size_t i = 0; i < BLOCKS; i++) {
        if (blocks[i] != NULL && !block_is_signed(blocks[i], size_of(i)))
            abort();
        blocks[i] = i % 2 == 0 ? realloc(blocks[i], size_of(i))
                               : (free(blocks[i]), calloc(1, size_of(i)));
        if (blocks[i] == NULL)
            abort();
        block_sign(blocks[i], size_of(i));
    }
}

static void before_all(int argc, char **argv, char **environment)
{
    (void)argc, (void)argv, (void)environment;
    free(hidden(NULL));
    free(hidden(&stage)); /* foreign, and there is nothing that could say so yet */
    void *aligned = NULL;
    if (posix_memalign(&aligned, 4096, 100) != 0)
        abort();
    free(aligned);
    renew_blocks(0);
}

__attribute__((section(".preinit_array"), used)) static void (*const preinit)(int, char **,
                                                                              char **) = before_all;

__attribute__((constructor(101))) static void first_constructor(void)
{
    renew_blocks(1);
}

__attribute__((constructor)) static void last_constructor(void)
{
    renew_blocks(2);
}

int main(void)
{
    check_is_calmalloc();
    check_time_limit(20);
    renew_blocks(3);
    for (size_t i = 0; i < BLOCKS; i++) {
        CHECK(malloc_usable_size(blocks[i]) >= size_of(i),
              "a block from before the constructors is not ours");
        free(blocks[i]);
    }
    return 0;
}
