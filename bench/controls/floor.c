/*
 * floor: the least that an allocator can do, to see what a workload leaves to be gained.
 *
 * A block has its class in a header; malloc pops a list of the calling thread, free pushes onto it,
 * whoever allocated the block: some ten instructions each, nothing shared, nothing checked, nothing
 * ever given back. No allocator that people can use does less. What a workload takes on it is the
 * workload, its cache misses and its page faults; a ratio to it that is near 1 cannot be bettered
 * by any allocator, and one below 1 shows what placement and reuse are worth.
 *
 * Not a peer: memory that one thread frees for another to allocate again is lost to both.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum {
    GRAIN = 16,
    STEPS_MAX = 64, /* classes of GRAIN bytes each       */
    STEPS_A_DOUBLING = 8,
    CLASSES = 512,
    CHUNK = 4 << 20,
    HUGE = 1 << 20,       /* from here on a mapping of its own */
    CLASS_NONE = CLASSES, /* is never allocated again        */
};

struct header {
    uint64_t bytes;
    uint64_t class;
};

struct block {
    struct block *next;
};

static __thread struct block *lists[CLASSES] __attribute__((tls_model("initial-exec")));
static __thread char *chunk, *chunk_end;

static inline size_t class_of(size_t bytes)
{
    if (bytes <= GRAIN * STEPS_MAX)
        return bytes == 0 ? 1 : (bytes + GRAIN - 1) / GRAIN;
    unsigned top = 63 - (unsigned)__builtin_clzl(bytes - 1);
    return STEPS_MAX + (top - 10) * STEPS_A_DOUBLING + (((bytes - 1) >> (top - 3)) & 7) + 1;
}

static size_t class_bytes(size_t class)
{
    if (class <= STEPS_MAX)
        return class * GRAIN;
    size_t step = class - STEPS_MAX - 1;
    return (step % STEPS_A_DOUBLING + STEPS_A_DOUBLING + 1) << (step / STEPS_A_DOUBLING + 7);
}

static struct header *header_of(void *block)
{
    return (struct header *)block - 1;
}

static void *map(size_t bytes)
{
    void *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return start == MAP_FAILED ? NULL : start;
}

static __attribute__((noinline)) void *carve(size_t bytes, size_t class)
{
    size_t whole = sizeof(struct header) + bytes;
    struct header *header;
    if (whole >= HUGE) {
        header = map(whole);
    } else {
        if ((size_t)(chunk_end - chunk) < whole) {
            chunk = map(CHUNK);
            chunk_end = chunk == NULL ? NULL : chunk + CHUNK;
        }
        header = (struct header *)(void *)chunk;
        chunk = chunk == NULL ? NULL : chunk + whole;
    }
    if (header == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    *header = (struct header){bytes, class};
    return header + 1;
}

void *malloc(size_t bytes)
{
    if (__builtin_expect(bytes > PTRDIFF_MAX / 2, 0)) {
        errno = ENOMEM;
        return NULL;
    }
    size_t class = class_of(bytes);
    struct block *block = lists[class];
    if (__builtin_expect(block == NULL, 0))
        return carve(class_bytes(class), class);
    lists[class] = block->next;
    return block;
}

void free(void *block)
{
    if (block == NULL || header_of(block)->class == CLASS_NONE)
        return;
    size_t class = header_of(block)->class;
    ((struct block *)block)->next = lists[class];
    lists[class] = block;
}

void *calloc(size_t count, size_t bytes)
{
    size_t product;
    if (__builtin_mul_overflow(count, bytes, &product))
        product = SIZE_MAX;
    void *block = malloc(product);
    return block == NULL ? NULL : memset(block, 0, product);
}

size_t malloc_usable_size(void *block)
{
    return block == NULL ? 0 : header_of(block)->bytes;
}

void *realloc(void *block, size_t bytes)
{
    if (block != NULL && bytes <= malloc_usable_size(block))
        return block;
    void *moved = malloc(bytes);
    if (block == NULL || moved == NULL)
        return moved;
    memcpy(moved, block, malloc_usable_size(block));
    free(block);
    return moved;
}

void *memalign(size_t align, size_t bytes)
{
    if (align <= GRAIN)
        return malloc(bytes);
    char *start = malloc(bytes + align + sizeof(struct header));
    if (start == NULL)
        return NULL;
    char *block = start + sizeof(struct header);
    block += -(uintptr_t)block & (align - 1);
    *header_of(block) = (struct header){bytes, CLASS_NONE};
    return block;
}

void *aligned_alloc(size_t align, size_t bytes)
{
    return memalign(align, bytes);
}

int posix_memalign(void **out, size_t align, size_t bytes)
{
    void *block = memalign(align, bytes);
    if (block == NULL)
        return ENOMEM;
    *out = block;
    return 0;
}
