/*
 * names.c: all that musl and calmalloc have for allocating is one heap. Whatever the C library
 * allocates for its caller is a block of calmalloc's, and can be freed there.
 *
 * Seen to fail with an aligned_alloc that is the C library's.
 */
#define _GNU_SOURCE

#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "calmalloc/calmalloc.h"

static int failures;

/* Frees the block after seeing that it is ours, and aligned. */
static void check(const char *what, void *block, size_t bytes, size_t alignment)
{
    __asm__ volatile("" : "+r"(block));
    if (block != NULL && calm_usable_size(block) >= bytes && (uintptr_t)block % alignment == 0) {
        memset(block, 1, bytes);
    } else {
        printf("%s: %p is no block of calmalloc's with %zu bytes\n", what, block, bytes);
        failures++;
    }
    free(block);
}

static void check_standard_names(void)
{
    void *block = NULL;
    check("malloc", malloc(100), 100, 16);
    check("calloc", calloc(10, 10), 100, 16);
    check("realloc", realloc(malloc(10), 5000), 5000, 16);
    check("reallocarray", reallocarray(NULL, 10, 10), 100, 16);
    check("aligned_alloc", aligned_alloc(256, 512), 512, 256);
    check("memalign", memalign(4096, 100), 100, 4096);
    check("valloc", valloc(100), 100, 4096);
    check("posix_memalign", posix_memalign(&block, 64, 100) == 0 ? block : NULL, 100, 64);
    block = malloc(100);
    if (malloc_usable_size(block) != calm_usable_size(block))
        failures++;
    free(block);
}

/* Made inside the C library. */
static void check_gifts(void)
{
    char *words = NULL, *line = NULL;
    size_t size = 0, line_size = 0;
    FILE *stream = open_memstream(&words, &size);
    fprintf(stream, "a line of some words\n");
    fclose(stream);
    check("open_memstream", words, size, 1);
    check("asprintf", asprintf(&words, "%0100d", 7) > 0 ? words : NULL, 101, 1);
    check("strdup", strdup("some words"), 11, 1);
    check("strndup", strndup("some words", 4), 5, 1);
    check("wcsdup", wcsdup(L"words"), 6 * sizeof(wchar_t), 1);
    check("realpath", realpath("/proc/self/..", NULL), 6, 1);
    stream = fopen("/proc/self/status", "r");
    if (getline(&line, &line_size, stream) < 0)
        failures++;
    fclose(stream);
    check("getline", line, line_size, 1);
}

int main(void)
{
    struct calm_stats stats;
    check_standard_names();
    check_gifts();
    calm_stats_read(&stats);
    if (stats.foreign_frees != 0) {
        printf("%zu frees of blocks that are not calmalloc's\n", (size_t)stats.foreign_frees);
        failures++;
    }
    return failures != 0;
}
