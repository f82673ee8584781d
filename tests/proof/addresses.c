/*
 * addresses.c: any address, asked of any pool's tables, for Frama-C's value analysis:
 * addresses_test.py
 *
 * A pool of three classes whose facts are any that fit its arrays: any stride, inverse and shift,
 * any way from a part of the range to a class. So nothing that fill_tables() works out is relied
 * upon but that a class has no more blocks begun than its map has bits, that its hot word is one of
 * the map, that the last keys are UINT64_MAX, and that the range has no more parts than the table.
 *
 * Not covered: other threads (plain_atomic.h; that remote frees meet is the model's matter), and
 * that an address leads to its own block.
 */
#include <stddef.h>
#include <stdint.h>

#include "base/attr.h"
#undef likely
#undef unlikely
#define likely(condition) (condition)
#define unlikely(condition) (condition)
#include "plain_atomic.h"
#define _Alignas(bytes)
#define _Static_assert(...) /* the analyser lays structures out without _Alignas */

static unsigned lowest(uint64_t word)
{
    unsigned i = 0;
    while (i < 63 && (word >> i & 1) == 0)
        i++;
    return i;
}

static unsigned leading(uint64_t word)
{
    unsigned i = 0;
    while (i < 63 && (word >> (63 - i) & 1) == 0)
        i++;
    return i;
}

#define __builtin_ctzll(word) lowest(word)
#define __builtin_clzll(word) leading(word)
#include "pool/pool.c"

#define AT(n) (uint16_t)(offsetof(struct calm_pool, classes) + (n) * sizeof(struct pool_class))

enum { BYTES = 1 << 16, WORDS = 16, COUNT = 3, SHIFT_LEAST = 8, SHIFT_MOST = 40 };

static volatile uint64_t anything;
static const uint16_t ways[COUNT + 1] = {AT(0), AT(1), AT(2), AT(COUNT)};
static char blocks[BYTES];
static char room[sizeof(struct calm_pool) + (COUNT + 1) * sizeof(struct pool_class)];
static pool_word maps[COUNT][2 * WORDS];
static uint64_t nears[COUNT], fars[COUNT];

static void any_class(struct pool_class *class, unsigned n)
{
    pool_word *map = maps[n];
    class->free = map;
    class->near = &nears[n];
    class->far = &fars[n];
    class->count = &class->counted;
    class->hot = anything % WORDS;
    class->hot_word = &map[class->hot];
    class->blocks = anything % (WORDS * 64 + 1);
    class->begun = anything % (WORDS * 64 + 1);
    class->blocks_at = anything;
    class->stride = anything;
    class->inverse = anything;
    class->shift = anything % 64;
    class->align = 1 + anything % CALM_POOL_ALIGN_MAX;
    for (unsigned w = 0; w < 2 * WORDS; w++)
        map[w] = anything;
}

static void any_address(calm_pool *pool)
{
    char *address = blocks + (int64_t)anything;
    free_any(pool, address);
    calm_pool_usable_size(pool, address);
    calm_pool_free_remote(pool, address);
    calm_pool_owns(pool, address);
}

int main(void)
{
    calm_pool *pool = (calm_pool *)room;
    pool->blocks = blocks;
    pool->blocks_bytes = BYTES;
    pool->class_count = COUNT;
    for (unsigned i = 0; i < KEYS; i++)
        pool->last_byte[i] = i < COUNT - 1 ? (i + 1) * (BYTES / COUNT) : UINT64_MAX;
    for (unsigned i = 0; i < POOL_GRANULES; i++)
        pool->class_at[i] = ways[anything % (COUNT + 1)];
    for (unsigned n = 0; n < COUNT; n++)
        any_class(&pool->classes[n], n);
    for (unsigned shift = SHIFT_LEAST; shift < SHIFT_MOST; shift++) {
        pool->granule_shift = shift;
        any_address(pool);
    }
    return 0;
}
