/*
 * two_copies.c: one calmalloc is linked into the program statically, and a shared one is in the
 * process as well: preloaded, or opened by its path (the argument). Each works; a block of one that
 * is given to the other is foreign there, which is counted and harmless.
 */
#define _GNU_SOURCE

#include "check.h"

#include <calmalloc/calmalloc.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct heap {
    void *(*allocate)(size_t size);
    void (*release)(void *block);
    size_t (*usable_size)(const void *block);
};

static void use(const struct heap *heap)
{
    void *blocks[500];
    for (size_t i = 0; i < 500; i++) {
        blocks[i] = heap->allocate(1 + i * 200);
        CHECK(blocks[i] != NULL && heap->usable_size(blocks[i]) > i * 200,
              "a copy does not know its own block");
        block_sign(blocks[i], 1 + i * 200);
    }
    for (size_t i = 0; i < 500; i++) {
        CHECK(block_is_signed(blocks[i], 1 + i * 200), "a block was overwritten");
        heap->release(blocks[i]);
    }
}

static void *use_both(void *argument)
{
    const struct heap *heaps = argument;
    for (int round = 0; round < 20; round++) {
        use(&heaps[0]);
        use(&heaps[1]);
    }
    return NULL;
}

static struct heap of_library(const char *path)
{
    struct heap heap;
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CHECK(handle != NULL, "%s", dlerror());
    *(void **)&heap.allocate = dlsym(handle, "calm_malloc");
    *(void **)&heap.release = dlsym(handle, "calm_free");
    *(void **)&heap.usable_size = dlsym(handle, "calm_usable_size");
    CHECK(heap.allocate != NULL && heap.release != NULL && heap.usable_size != NULL,
          "%s has no calm_ names", path);
    CHECK(heap.allocate != calm_malloc, "there is one copy only");
    return heap;
}

int main(int argc, char **argv)
{
    CHECK(argc == 2, "usage: two_copies LIBRARY");
    check_time_limit(60);
    struct heap heaps[2] = {{calm_malloc, calm_free, calm_usable_size}, of_library(argv[1])};

    void *mine = hidden(malloc(100));
    CHECK(calm_usable_size(mine) >= 100, "malloc is not the copy that is linked in");
    char *words = strdup("words");
    CHECK(calm_usable_size(words) >= 6, "the C library does not use the copy that is linked in");
    free(words);

    use_both(heaps);
    pthread_t threads[3];
    for (int t = 0; t < 3; t++)
        CHECK(pthread_create(&threads[t], NULL, use_both, heaps) == 0, "no thread");
    for (int t = 0; t < 3; t++)
        pthread_join(threads[t], NULL);

    void *theirs = heaps[1].allocate(100);
    CHECK(calm_usable_size(theirs) == 0 && heaps[1].usable_size(mine) == 0,
          "a copy claims the other's block");
    memset(theirs, 0x11, 100);
    free(theirs); /* foreign here: ignored, so the block is still live there */
    heaps[1].release(mine);
    CHECK(heaps[1].usable_size(theirs) >= 100 && *(char *)theirs == 0x11,
          "a foreign free had an effect");
    CHECK(calm_usable_size(mine) >= 100, "a foreign free had an effect");
    heaps[1].release(theirs);
    free(mine);
    return 0;
}
