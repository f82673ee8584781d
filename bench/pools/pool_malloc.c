/*
 * pool_malloc: the pools of calmalloc/pool.h under the standard names, so that the lab's workloads
 * drive them like any other library. Not for use: programs call pools by their own interface.
 *
 *   CALM_POOL_MIB=N     bytes of a thread's pool, 1280 by default
 *   CALM_POOL_LAZY=1    pages come when first touched; otherwise the first pool's are there at once
 *
 * Each thread has a pool of its own from its first request on, in a slot of one reserved range, so
 * that an address tells its pool. Who frees a block of another thread's pool frees it remotely. A
 * thread's pool outlives it. Requests above the largest class are mappings of their own.
 *
 * Owner: a slot is its thread's; pools[] is written once a slot, before any block of it is known.
 */
#define _GNU_SOURCE
#include "calmalloc/pool.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { SLOTS = 128, HEAD = 4096, ALIGN_MIN = 16 };

static const size_t sizes[] = {16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 16384, 65536, 1 << 20};
static const uint32_t shares[] = {2, 2, 8, 3, 3, 5, 50, 3, 6, 6, 6, 6};
enum { CLASSES = sizeof sizes / sizeof *sizes, LARGEST = 1 << 20 };

static calm_pool *pools[SLOTS];
static _Atomic int slots_used;
static _Atomic(char *) base;
static size_t slot_bytes;
static unsigned first_flags;

/* The calling thread's pool, which begins with its slot; NULL before its first request. */
static __thread struct calm_pool *own __attribute__((tls_model("initial-exec")));

static void *map(size_t bytes)
{
    void *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return start == MAP_FAILED ? NULL : start;
}

/* By the first request of the process, which comes before any second thread. */
static bool reserve(void)
{
    const char *mib = getenv("CALM_POOL_MIB"), *lazy = getenv("CALM_POOL_LAZY");
    slot_bytes = (mib == NULL ? 1280 : strtoull(mib, NULL, 10)) << 20;
    first_flags = lazy != NULL && *lazy == '1' ? CALM_POOL_LAZY : 0;
    char *start = map(SLOTS * slot_bytes);
    atomic_store_explicit(&base, start, memory_order_release);
    return start != NULL;
}

static __attribute__((noinline)) calm_pool *open_slot(void)
{
    if (atomic_load_explicit(&base, memory_order_relaxed) == NULL && !reserve())
        return NULL;
    int slot = atomic_fetch_add(&slots_used, 1);
    if (slot >= SLOTS)
        return NULL;
    struct calm_pool_config config = {sizes,
                                      shares,
                                      CLASSES,
                                      slot_bytes,
                                      CALM_POOL_SPILL |
                                          (slot == 0 ? first_flags : (unsigned)CALM_POOL_LAZY),
                                      base + (size_t)slot * slot_bytes};
    if (calm_pool_create(&config, &pools[slot]) != CALM_OK)
        return NULL;
    own = pools[slot];
    return own;
}

static inline calm_pool *own_pool(void)
{
    return __builtin_expect(own != NULL, 1) ? own : open_slot();
}

/* No block is where the pool itself begins; so NULL is nobody's in a thread without a pool, too. */
static inline bool is_own(const void *block)
{
    return (uintptr_t)block - (uintptr_t)own - 1 < slot_bytes - 1;
}

/* The slot of an address, or one past the last. */
static inline size_t slot_of(const void *block)
{
    size_t offset = (size_t)((const char *)block - base);
    return slot_bytes != 0 && offset < SLOTS * slot_bytes ? offset / slot_bytes : SLOTS;
}

static void *map_large(size_t bytes, size_t align)
{
    if (bytes > PTRDIFF_MAX / 2 || align > PTRDIFF_MAX / 4)
        return NULL;
    size_t whole = bytes + HEAD + align;
    char *start = map(whole);
    if (start == NULL)
        return NULL;
    char *block = start + HEAD;
    block += -(uintptr_t)block & (align - 1);
    size_t *head = (size_t *)(void *)(block - HEAD);
    head[0] = (size_t)start;
    head[1] = whole;
    return block;
}

static inline size_t usable(void *block)
{
    size_t slot = slot_of(block);
    if (slot < SLOTS)
        return calm_pool_usable_size(pools[slot], block);
    const size_t *head = (const size_t *)(void *)((char *)block - HEAD);
    return head[0] + head[1] - (size_t)block;
}

static void *refused(void)
{
    errno = ENOMEM;
    return NULL;
}

static __attribute__((noinline)) void *malloc_slow(size_t bytes)
{
    void *block = NULL;
    if (bytes > LARGEST)
        block = map_large(bytes, ALIGN_MIN);
    else if (own == NULL && open_slot() != NULL)
        block = calm_pool_alloc(own, bytes);
    return block != NULL ? block : refused();
}

/* An exhausted class says NULL and leaves errno as it was, so that the call is the last thing done.
 */
void *malloc(size_t bytes)
{
    if (__builtin_expect(own == NULL || bytes > LARGEST, 0))
        return malloc_slow(bytes);
    return calm_pool_alloc(own, bytes);
}

static __attribute__((noinline)) void free_elsewhere(void *block)
{
    if (block == NULL)
        return;
    size_t slot = slot_of(block);
    if (slot < SLOTS) {
        if (calm_pool_free_remote(pools[slot], block) != CALM_OK)
            abort();
    } else {
        const size_t *head = (const size_t *)(void *)((char *)block - HEAD);
        munmap((void *)head[0], head[1]);
    }
}

void free(void *block)
{
    if (__builtin_expect(is_own(block), 1)) {
        if (calm_pool_free(own, block) != CALM_OK)
            abort();
    } else {
        free_elsewhere(block);
    }
}

void *calloc(size_t count, size_t bytes)
{
    size_t product;
    if (__builtin_mul_overflow(count, bytes, &product))
        return refused();
    void *block = malloc(product);
    return block == NULL ? NULL : memset(block, 0, product);
}

void *realloc(void *block, size_t bytes)
{
    if (block != NULL && bytes <= usable(block))
        return block;
    void *moved = malloc(bytes);
    if (block == NULL || moved == NULL)
        return moved;
    memcpy(moved, block, usable(block));
    free(block);
    return moved;
}

void *memalign(size_t align, size_t bytes)
{
    calm_pool *pool = own_pool();
    void *block = NULL;
    if (align <= CALM_POOL_ALIGN_MAX && bytes <= LARGEST && pool != NULL)
        block = calm_pool_alloc_aligned(pool, bytes, align < ALIGN_MIN ? ALIGN_MIN : align);
    else if ((align & (align - 1)) == 0)
        block = map_large(bytes, align);
    return block != NULL ? block : refused();
}

void *aligned_alloc(size_t align, size_t bytes)
{
    return memalign(align, bytes);
}

int posix_memalign(void **out, size_t align, size_t bytes)
{
    if (align < sizeof(void *) || (align & (align - 1)) != 0)
        return EINVAL;
    void *block = memalign(align, bytes);
    if (block == NULL)
        return ENOMEM;
    *out = block;
    return 0;
}

/* --- for workloads that know of pools --- */

/* The calling thread's pool, for those that call it by its own interface. */
calm_pool *pool_malloc_own(void)
{
    return own_pool();
}

/* The most instructions of calm_pool_alloc, as this configuration has it. */
unsigned pool_malloc_bound(void)
{
    struct calm_pool_config config = {sizes,           shares, CLASSES, slot_bytes,
                                      CALM_POOL_SPILL, NULL,   NULL};
    struct calm_pool_limits limits;
    return calm_pool_bound(&config, &limits) == CALM_OK ? limits.alloc.instructions : 0;
}

size_t malloc_usable_size(void *block)
{
    return block == NULL ? 0 : usable(block);
}
