/*
 * early_preload.c: a library to be preloaded beside libcalmalloc, before or after it, whose
 * constructors of the highest priority use the heap, and whose destructor runs among the last.
 */
#define _GNU_SOURCE

#include <stdlib.h>
#include <string.h>

static char *kept;

static void use_heap(void)
{
    void *blocks[100];
    for (size_t i = 0; i < 100; i++) {
        blocks[i] = malloc(1 + i * 1000);
        if (blocks[i] == NULL)
            abort();
        memset(blocks[i], 1, 1 + i * 1000);
    }
    for (size_t i = 0; i < 100; i++)
        free(blocks[i]);
}

__attribute__((constructor(101))) static void start(void)
{
    free(NULL);
    use_heap();
    kept = strdup("words that are kept until the end");
    if (kept == NULL)
        abort();
}

__attribute__((destructor(101))) static void finish(void)
{
    if (kept == NULL || strcmp(kept, "words that are kept until the end") != 0)
        abort();
    free(kept);
    use_heap();
}
