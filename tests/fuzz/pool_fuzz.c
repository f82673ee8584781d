/*
 * pool_fuzz.c: a pool's configuration and then its operations from bytes, with a bounded heap
 * beside.
 *
 * Any configuration, good or bad, is answered with a code; what is accepted must hold its
 * invariants, hand out blocks that lie apart, and judge every free as the list of live blocks does.
 */
#include <stdlib.h>
#include <string.h>

#include "pool/bounded.h"
#include "pool/pool.h"
#include "target.h"

enum { LIVE_MAX = 64, BYTES_MAX = 1 << 17, CLASSES_MAX = 5 };

const struct fuzz_input fuzz_corpus[] = {
    {"\x02\x10\x40\x40\x32\x32\x08\x00\x40\x00\x01\x00\x02\x02\x00\x03\x01\x04\x05\x00", 20},
    {"\x00\x18\x64\x0f\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x02\x00\x03\x00\x05\x00", 20},
    {"\x01\x01\xff\x1e\x46\x02\x03\x06\x10\x06\x20\x06\xff\x07\x01\x07\x00\x06\x7f\x05", 20},
    {"\xff\xff\xf0\xff\xf1\xff\xf2\xff\x73\x70\x04\x40\x05\x40\x06\x40\x07\x40\xf0\xff", 20},
};
const size_t fuzz_corpus_count = sizeof fuzz_corpus / sizeof fuzz_corpus[0];

struct bytes {
    const uint8_t *at;
    size_t left;
};

static unsigned next(struct bytes *bytes)
{
    if (bytes->left == 0)
        return 0;
    bytes->left--;
    return *bytes->at++;
}

static void check(bool is_so)
{
    if (!is_so)
        abort();
}

static char *live[LIVE_MAX];
static size_t live_bytes[LIVE_MAX];
static size_t live_count;

static bool is_live(const char *block)
{
    for (size_t i = 0; i < live_count; i++)
        if (live[i] == block)
            return true;
    return false;
}

static void add(calm_pool *pool, char *block, size_t bytes)
{
    if (block == NULL)
        return;
    check(calm_pool_usable_size(pool, block) >= bytes);
    for (size_t i = 0; i < live_count; i++)
        check(block + bytes <= live[i] || live[i] + live_bytes[i] <= block);
    memset(block, (int)bytes, bytes);
    if (live_count == LIVE_MAX) {
        check(calm_pool_free(pool, block) == 0);
        return;
    }
    live[live_count] = block;
    live_bytes[live_count++] = bytes;
}

static void drop(size_t i)
{
    for (size_t k = 0; k < live_bytes[i]; k++)
        check(live[i][k] == (char)live_bytes[i]);
    live_count--;
    live[i] = live[live_count];
    live_bytes[i] = live_bytes[live_count];
}

static void one(calm_pool *pool, struct bytes *bytes)
{
    unsigned operation = next(bytes), a = next(bytes);
    size_t size = (a & 15u) << (a >> 4);
    char *block = live_count > 0 ? live[a % live_count] : (char *)pool + a * 64;
    bool is_block = live_count > 0;
    int (*release)(calm_pool *, void *) = operation & 8 ? calm_pool_free : calm_pool_free_remote;
    switch (operation % 8) {
    case 0:
    case 1: add(pool, calm_pool_alloc(pool, size), size); break;
    case 2:
        add(pool, calm_pool_alloc_aligned(pool, size, (size_t)1 << operation / 16), size);
        break;
    case 3:
    case 4:
        if (is_block)
            drop(a % live_count);
        check((release(pool, block) == 0) == is_block);
        break;
    case 5: /* any address of the pool or near it */
        block = (char *)pool + (a << 9 | next(bytes) << 1 | operation >> 7);
        check(is_live(block) || release(pool, block) != 0);
        check(is_live(block) == (calm_pool_usable_size(pool, block) != 0));
        break;
    case 6: calm_pool_drain(pool); break;
    default: check(calm_pool_owns(pool, block) == is_block || !is_block); break;
    }
}

static void fuzz_pool(struct bytes *bytes)
{
    size_t sizes[CLASSES_MAX];
    uint32_t shares[CLASSES_MAX], left = 100;
    struct calm_pool_config config = {.block_bytes = sizes, .percent = shares};
    config.classes = next(bytes) % (CLASSES_MAX + 1);
    for (size_t i = 0; i < config.classes; i++) {
        sizes[i] = (i > 0 ? sizes[i - 1] : 0) + (next(bytes) << next(bytes) % 8);
        shares[i] = i + 1 == config.classes ? left : next(bytes) % (left + 1);
        left -= shares[i];
    }
    config.bytes = (size_t)next(bytes) << 9;
    config.flags = next(bytes) & ~(unsigned)(CALM_POOL_LOCK | CALM_POOL_HUGE);
    void *memory = config.flags & 16 ? aligned_alloc(64, BYTES_MAX) : NULL;
    config.memory = memory;
    config.flags &= 15;
    struct calm_pool_limits limits;
    calm_pool *pool;
    int bound = calm_pool_bound(&config, &limits), made = calm_pool_create(&config, &pool);
    check(bound == made && calm_strerror(made) != NULL);
    if (made == 0) {
        check(limits.usable_bytes + limits.lost_bytes == config.bytes);
        live_count = 0;
        while (bytes->left > 0)
            one(pool, bytes);
        check(pool_verify(pool) == NULL);
        while (live_count > 0) {
            char *block = live[0];
            drop(0);
            check(calm_pool_free_remote(pool, block) == 0);
        }
        calm_pool_destroy(pool);
    }
    free(memory);
}

static void fuzz_bounded(struct bytes *bytes)
{
    size_t units = next(bytes), room = units * 64 + next(bytes);
    char *memory = aligned_alloc(64, (room + 63) / 64 * 64); /* what the heap is told, no more */
    char *blocks[16] = {NULL};
    calm_bounded *heap;
    if (calm_bounded_create(memory, room, &heap) != 0) {
        free(memory);
        return;
    }
    size_t all = calm_bounded_free_bytes(heap);
    while (bytes->left > 0) {
        unsigned operation = next(bytes), size = next(bytes) * (operation / 16 + 1);
        char **block = &blocks[operation % 16];
        if (*block == NULL && (*block = calm_bounded_alloc(heap, size)) != NULL) {
            size_t usable = calm_bounded_usable_size(heap, *block);
            check(usable >= size && *block + usable <= memory + room);
            memset(*block, (int)size, size);
        } else if (*block != NULL) {
            check(calm_bounded_free(heap, *block + 1 + size % 63) != 0);
            check(calm_bounded_free(heap, *block) == 0 && calm_bounded_free(heap, *block) != 0);
            *block = NULL;
        }
    }
    check(bounded_verify(heap) == NULL);
    for (unsigned i = 0; i < 16; i++)
        check(calm_bounded_free(heap, blocks[i]) == 0);
    check(calm_bounded_free_bytes(heap) == all && bounded_verify(heap) == NULL);
    free(memory);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes bytes = {data, size}, again = bytes;
    fuzz_pool(&bytes);
    fuzz_bounded(&again);
    return 0;
}
