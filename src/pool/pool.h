/*
 * pool.h: what a pool is made of.
 *
 * One bit in each of two planes says what a block is: `given` and `taken` equal means live, unequal
 * means free. The owner takes a block by flipping its bit of `taken`, with a plain store; whoever
 * frees it flips its bit of `given`, with one locked instruction, from what `taken` has to the
 * opposite. So a second free sees its work done, and nobody ever undoes another's step.
 * docs/protocols/pool-remote.md has states, steps and proofs.
 *
 * Invariants, held by pool_verify():
 *   P1 bits behind a class's last block are equal in both planes: never free.
 *   P2 a word that `near` has is not empty; a word it has not is empty or waits for the cursor.
 *   P3 counted[w] is at most the free blocks of word w; their sum is the class's free_known.
 *   P4 hot is the lowest word that `near` has, or POOL_NONE.
 */
#ifndef CALM_POOL_POOL_H
#define CALM_POOL_POOL_H

#include "base/atomic.h"
#include "base/check.h"
#include "calmalloc/pool.h"
#include "pool/levels.h"

enum {
    POOL_TABLE_BYTES = 1024, /* sizes up to this find their class in a table            */
    POOL_GRANULES = 256,     /* parts of the blocks' range that each have a table entry */
    POOL_MIXED = 255,        /* an entry: several classes lie in this part              */
    POOL_ALIGNS = 13,        /* 2^0 to 2^12 */
    POOL_EXACT_MAX = 12,     /* classes whose free blocks the watch line counts exactly */
};

#define POOL_NONE UINT32_MAX

/* The state of 64 blocks. In one cache line for 256, so that a free touches one. */
struct pool_word {
    _Atomic uint64_t taken; /* the owner writes; who holds a block of it may read */
    _Atomic uint64_t given; /* any thread flips a bit from `taken` to its opposite */
};

struct pool_class {
    /* Constant. Any thread. */
    struct pool_word *map;
    size_t blocks_at; /* of the first block, from the pool's first possible one */
    uint64_t inverse; /* of the odd part of stride, modulo 2^64                 */
    size_t stride;
    uint32_t shift; /* stride is its odd part << shift                          */
    uint32_t blocks;
    uint32_t align;
    uint32_t words;
    uint64_t *near;
    uint64_t *far;

    /* The owner's. */
    _Alignas(CACHE_LINE_BYTES) uint64_t root;
    uint8_t *counted; /* of each word, the free blocks that free_known has in it */
    uint32_t hot;
    uint32_t cursor; /* the word that the next drain looks at */
    uint32_t free_known;
    uint32_t least_free;
    uint32_t found_now, found_last; /* remote frees of this pass of the cursor, of the last  */
    uint64_t allocs;
    uint64_t remote_frees;
};
_Static_assert(sizeof(struct pool_class) == 2 * CACHE_LINE_BYTES,
               "one line of facts, one of state");

struct calm_pool {
    /* Constant. Any thread. */
    char *blocks; /* the first byte that may be a block's */
    size_t blocks_bytes;
    uint64_t largest; /* declared block */
    uint32_t class_count;
    uint32_t drain_max;
    uint32_t granule_shift;
    bool spills;
    bool is_mapped;
    bool is_locked;
    size_t bytes;
    uint64_t with_align[POOL_ALIGNS]; /* bit c: class c is aligned to 2^index */
    uint64_t declared[KEYS];          /* block bytes; UINT64_MAX past the last class         */
    uint64_t last_byte[KEYS];         /* of each class's range, from `blocks`; the same past */
    uint8_t class_at[POOL_GRANULES];
    uint8_t class_of_size[POOL_TABLE_BYTES + 1];

    /* Any thread, seldom. */
    _Alignas(CACHE_LINE_BYTES) _Atomic bool was_remote; /* a remote free was ever begun; for good */
    _Atomic uint64_t remote_misuses;

    /* The owner's. */
    _Alignas(CACHE_LINE_BYTES) uint64_t failed;
    uint64_t spilled;
    uint64_t misuses;
    uint32_t drain_next; /* the class that calm_pool_drain comes to next */
    bool spill_turn;     /* whether the last look was at a class that was to lend */

    /* The owner writes, anyone reads. */
    _Alignas(CACHE_LINE_BYTES) struct calm_pool_occupancy watch;

    struct pool_class classes[];
};
_Static_assert(sizeof(struct calm_pool_occupancy) == CACHE_LINE_BYTES, "one line");
_Static_assert(offsetof(struct calm_pool, classes) % CACHE_LINE_BYTES == 0, "classes on lines");

/* What a free of `block` would say; CALM_OK and the bytes that may be used. Any thread. */
int pool_look(const calm_pool *pool, const void *block, size_t *usable);

/* Walks the whole pool. Owner only, no remote free meanwhile. */
verdict pool_verify(const calm_pool *pool);

#endif
