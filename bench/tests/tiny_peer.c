/*
 * tiny_peer: a small allocator with one fault, chosen at compile time, to see the proof of a peer
 * catch it. It only ever takes new memory, so it is sound and useless.
 *
 *   FAULT 0  none                              FAULT 5  calloc gives a byte that is not zero
 *   FAULT 1  crashes                           FAULT 6  hands out a live block again, at times
 *   FAULT 2  never returns                     FAULT 7  aligned_alloc does not align
 *   FAULT 3  passes calls on to the C library  FAULT 8  fewer usable bytes than were asked for
 *   FAULT 4  realloc loses the last byte       FAULT 9  exports calloc, realloc and free, no malloc
 *   FAULT 10 hands out a live block again where several threads have some
 *   FAULT 11 crashes in a forked child         FAULT 12 takes any alignment in posix_memalign
 *
 * PER_CPU 1 says that caches for each processor are on when CALM_TEST_PER_CPU is set, PER_CPU 2
 * that they are always off.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

extern void *__libc_malloc(size_t bytes);

enum { HEADER = 16, PAGE = 4096, CALLS_BEFORE = 100 };
static const size_t heap_bytes = (size_t)1 << 36;
static _Atomic(char *) heap;
static atomic_size_t used, calls;

static void *take(size_t align, size_t bytes)
{
    size_t call = atomic_fetch_add(&calls, 1);
    if (FAULT == 1 && call > CALLS_BEFORE)
        __builtin_trap();
    static pid_t first;
    if (FAULT == 11 && first == 0)
        first = getpid();
    if (FAULT == 11 && getpid() != first)
        __builtin_trap();
    while (FAULT == 2 && call > CALLS_BEFORE)
        usleep(100000);
    if (bytes > heap_bytes) {
        errno = ENOMEM;
        return NULL;
    }
    if (atomic_load(&heap) == NULL) {
        char *none = NULL, *made = mmap(NULL, heap_bytes, PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (!atomic_compare_exchange_strong(&heap, &none, made))
            munmap(made, heap_bytes);
    }
    align = align < HEADER ? HEADER : align;
    size_t room = (bytes + align + HEADER + HEADER - 1) / HEADER * HEADER;
    uintptr_t start = (uintptr_t)atomic_load(&heap) + atomic_fetch_add(&used, room);
    char *block = (char *)((start + HEADER + align - 1) & ~(align - 1));
    memcpy(block - HEADER, &bytes, sizeof bytes);
    return block;
}

size_t malloc_usable_size(void *block)
{
    size_t bytes = 0;
    if (block != NULL)
        memcpy(&bytes, (char *)block - HEADER, sizeof bytes);
    return FAULT == 8 && bytes > 1000 ? bytes - 1 : bytes;
}

static void *allocate(size_t bytes)
{
    static _Atomic(void *) last, last_in_threads;
    if (FAULT == 3)
        return __libc_malloc(bytes);
    if (FAULT == 6 && bytes == 100 && atomic_load(&calls) % 500 == 0 && atomic_load(&last) != NULL)
        return atomic_fetch_add(&calls, 1), atomic_load(&last);
    if (FAULT == 10 && bytes > 200 && bytes < 300 && atomic_load(&calls) % 64 == 0) {
        void *live = atomic_load(&last_in_threads);
        if (live != NULL)
            return live;
    }
    void *block = take(HEADER, bytes);
    if (bytes == 100)
        atomic_store(&last, block);
    if (bytes >= 300 && bytes < 500)
        atomic_store(&last_in_threads, block);
    return block;
}

#if FAULT != 9
void *malloc(size_t bytes)
{
    return allocate(bytes);
}
#endif

void free(void *block)
{
    (void)block;
}

void *calloc(size_t count, size_t bytes)
{
    if (bytes != 0 && count > heap_bytes / bytes) {
        errno = ENOMEM;
        return NULL;
    }
    char *block = take(HEADER, count * bytes); /* Fresh pages read as zero. */
    if (FAULT == 5 && block != NULL && count * bytes > 1000)
        block[999] = 1;
    return block;
}

void *realloc(void *block, size_t bytes)
{
    void *made = allocate(bytes);
    if (block != NULL && made != NULL) {
        size_t had = FAULT == 3 ? 0 : malloc_usable_size(block);
        size_t kept = had < bytes ? had : bytes;
        memcpy(made, block, FAULT == 4 && kept > 500 ? kept - 1 : kept);
    }
    return made;
}

void *memalign(size_t align, size_t bytes)
{
    return take(align, bytes);
}

void *aligned_alloc(size_t align, size_t bytes)
{
    return take(FAULT == 7 && align == 256 ? HEADER : align, bytes);
}

int posix_memalign(void **out, size_t align, size_t bytes)
{
    if (FAULT == 12 && align == 3)
        align = 8;
    if (align < sizeof(void *) || (align & (align - 1)) != 0)
        return EINVAL;
    *out = take(align, bytes);
    return *out == NULL ? ENOMEM : 0;
}

#if PER_CPU != 0
bool MallocExtension_Internal_GetNumericProperty(const char *name, size_t bytes, size_t *value)
{
    (void)name, (void)bytes;
    *value = PER_CPU == 1 && getenv("CALM_TEST_PER_CPU") != NULL;
    return true;
}
#endif
