/*
 * fork_handlers.c: a library whose handlers of fork allocate sizes that nobody used before. Its
 * constructor runs before calmalloc's when it is preloaded behind it, and asks the C library
 * itself, so they run while the thread that forks has all of the heap's locks.
 *
 * Seen to hang when depots were made under a lock, and when a flush that found neither room nor a
 * batch waited for its depot.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { KEPT = 4096, BLOCKS = 6, SIZE_LIMIT = 32 * 1024 };

static void *kept[KEPT];
static size_t kept_count;
static unsigned long seed = 5;

static void allocate(void)
{
    for (int i = 0; i < BLOCKS; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        size_t size = (seed >> 33) % SIZE_LIMIT;
        void *block = malloc(size);
        if (block == NULL)
            abort();
        memset(block, i, size);
        if (i % 2 == 0 && kept_count < KEPT)
            kept[kept_count++] = block;
        else
            free(block);
    }
}

__attribute__((constructor)) static void install(void)
{
    typedef void handler(void);
    void *library = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    int (*enroll)(handler *before, handler *in_parent, handler *in_child, void *whose);
    *(void **)&enroll = dlsym(library, "__register_atfork");
    if (enroll == NULL || enroll(allocate, allocate, allocate, NULL) != 0)
        abort();
}
