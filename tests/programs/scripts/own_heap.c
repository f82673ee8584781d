/*
 * A program that exports a heap of its own, as browsers do, but not every name that allocates. A
 * library below it, the other half of this file, uses such a name. A block that the program did not
 * make stops it.
 */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef LIBRARY

int use_other_names(void)
{
    char *block = NULL;
    for (size_t count = 1; count <= 4096; count *= 2) {
        block = reallocarray(block, count, 8);
        if (block == NULL)
            return 1;
        memset(block, 'b', count * 8);
    }
    char *copy = strndup(block, 100);
    printf("%s\n", copy);
    free(copy);
    free(block);
    return 0;
}

#else

int use_other_names(void);

struct header {
    size_t size;
    size_t mark;
};
static _Alignas(16) char heap[32 << 20];
static size_t used;

static struct header *header_of(void *block)
{
    static const char complaint[] = "this block is not from the program's own heap\n";
    struct header *header = (struct header *)block - 1;
    if ((char *)block > heap && (char *)block < heap + sizeof heap && header->mark == 0xfeed)
        return header;
    ssize_t ignored = write(STDERR_FILENO, complaint, sizeof complaint - 1);
    (void)ignored;
    _exit(70);
}

void *malloc(size_t size)
{
    size_t rounded = (size + 15) & ~(size_t)15;
    if (rounded < size || rounded > sizeof heap - used - sizeof(struct header))
        return NULL;
    struct header *header = (struct header *)(heap + used);
    used += sizeof *header + rounded;
    *header = (struct header){rounded, 0xfeed};
    return header + 1;
}

void free(void *block)
{
    if (block != NULL)
        header_of(block);
}

void *calloc(size_t count, size_t size)
{
    void *block = malloc(count * size);
    return block != NULL ? memset(block, 0, count * size) : NULL;
}

void *realloc(void *block, size_t size)
{
    void *moved = malloc(size);
    if (block == NULL || moved == NULL)
        return moved;
    size_t had = header_of(block)->size;
    return memcpy(moved, block, had < size ? had : size);
}

int main(void)
{
    return use_other_names();
}

#endif
