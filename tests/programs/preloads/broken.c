/*
 * broken.c: a deliberately wrong allocator on top of the C library's, to show that these tests can
 * fail.
 *
 * BROKEN says what is wrong; each value becomes a library of its own. The faults are small ones,
 * such as a real allocator could have: programs still start on them, and most of what they do still
 * works.
 */
#include <malloc.h>
#include <string.h>
#include <unistd.h>

enum fault {
    FAULT_NONE,    /* forwards everything: shows that it is the faults that are caught */
    FAULT_CALLOC,  /* calloc of a large block clears all but the last byte */
    FAULT_REALLOC, /* realloc of a large block moves it, and loses its last words on the way */
    FAULT_TALKS,   /* all is right, but it complains once */
    FAULT_HANGS,   /* after a while free does not return */
};

enum { LARGE_BYTES = 4096, LOST_BYTES = 16, FREES_BEFORE_HANGING = 20000 };

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void __libc_free(void *block);

static unsigned frees;

void *malloc(size_t size)
{
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    size_t bytes;
    if (BROKEN != FAULT_CALLOC || __builtin_mul_overflow(count, size, &bytes) ||
        bytes < LARGE_BYTES)
        return __libc_calloc(count, size);
    char *block = __libc_malloc(bytes);
    if (block != NULL)
        memset(block, 0, bytes - 1);
    return block;
}

void *realloc(void *block, size_t size)
{
    size_t usable = malloc_usable_size(block);
    size_t kept = usable < size ? usable : size;
    if (BROKEN != FAULT_REALLOC || kept < LARGE_BYTES)
        return __libc_realloc(block, size);
    char *moved = __libc_malloc(size);
    if (moved == NULL)
        return NULL;
    memcpy(moved, block, kept - LOST_BYTES);
    __libc_free(block);
    return moved;
}

void free(void *block)
{
    unsigned count = __atomic_add_fetch(&frees, 1, __ATOMIC_RELAXED);
    static const char complaint[] = "calmalloc: nothing is wrong, this is a test\n";
    if (BROKEN == FAULT_TALKS && count == 1 &&
        write(STDERR_FILENO, complaint, sizeof complaint - 1) < 0)
        _exit(99);
    if (BROKEN == FAULT_HANGS && count > FREES_BEFORE_HANGING)
        pause();
    __libc_free(block);
}
