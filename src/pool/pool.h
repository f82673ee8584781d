/*
 * pool.h: the parts of a pool.
 *
 * Two planes of bits, separate from the blocks. A bit of `free` means that the owner can hand the
 * block out; only the owner writes it, by plain stores. A bit of `freed` is set by whoever frees
 * the block while other threads may free, with one locked instruction; it is cleared when the block
 * is handed out. `pending` lists the words of `freed` that the owner must inspect. The owner
 * decides only by `free` and data derived from `free`, so no other thread can corrupt it.
 * docs/protocols/pool-remote.md has states, steps and proofs.
 *
 * A class begins its words one by one, each when the begun ones have no free block. An unbegun word
 * is written neither here nor in the levels, so unused parts of a lazily mapped pool take no
 * memory.
 *
 * Invariants, checked by pool_verify():
 *   P0 begun is whole words, or all blocks; nothing reads the words behind it.
 *   P1 bits behind a class's last block are 0 in both planes.
 *   P2 `near` has exactly the words with a bit of `free`, and `hot`, which may have none left.
 *   P3 the count is the number of bits of `free`, and of blocks that are not begun.
 *   P4 hot is the lowest word that `near` has, or POOL_NONE; hot_word and hot_start match hot.
 *   P5 the watch line says no more than the counts.
 *   P6 while latest is in use, latest.word is hot_word with the block handed out last, which is
 *      the lowest there.
 *   P7 a word with a bit of `freed` that `free` lacks is pending on all levels.
 */
#ifndef CALM_POOL_POOL_H
#define CALM_POOL_POOL_H

#include "base/atomic.h"
#include "base/check.h"
#include "calmalloc/pool.h"
#include "pool/levels.h"

enum {
    POOL_TABLE_BYTES = 4096, /* largest size in class_of_size                           */
    POOL_KIB = 1024,         /* entries for larger sizes, one for each KiB */
    POOL_GRANULES = 256,     /* parts of the blocks' range, one class_at entry each */
    POOL_MIXED = 0,          /* an entry: sizes of this KiB have several classes        */
    POOL_ALIGNS = 13,        /* 2^0 to 2^12 */
    POOL_EXACT_MAX = 14,     /* most classes with exact counts in the watch line */
};

/* Why the owner's calls leave the fast path: bits of calm_pool.detours. */
enum {
    POOL_WAS_REMOTE = 1, /* a remote free ever began; never cleared         */
    POOL_IS_CODED = 2,   /* more than POOL_EXACT_MAX classes; constant */
};

#define POOL_NONE UINT32_MAX

/* The bits of 64 blocks in one plane. */
typedef _Atomic uint64_t pool_word;

struct pool_class {
    /* Constant, except where noted. Any thread. */
    pool_word *free;  /* the owner writes, any thread reads                      */
    size_t blocks_at; /* of the first block, from calm_pool.blocks               */
    uint64_t inverse; /* of the odd part of stride, modulo 2^64                  */
    uint64_t *near;
    uint64_t *far;
    uint32_t stride;
    _Atomic uint32_t begun; /* blocks in the begun words; the owner writes, any thread reads */
    uint32_t blocks;        /* 0: the empty class after the last, for sizes without a class */
    uint16_t align;
    uint8_t shift; /* stride is its odd part << shift */
    uint8_t index;
    _Atomic uint32_t *count; /* of free blocks: in the watch line, or `counted` */

    /* The owner's. */
    _Alignas(CACHE_LINE_BYTES) pool_word *hot_word; /* &calm_pool.nothing: none */
    char *hot_start;                                /* the word's first block       */
    uint64_t root;
    uint64_t allocs;
    uint64_t remote_frees;
    uint32_t hot;
    _Atomic uint32_t counted; /* free blocks, where the watch line has codes                */
    uint32_t least_free;
    uint32_t found_last; /* remote frees that the last take_back() found                    */
};
_Static_assert(sizeof(struct pool_class) == 2 * CACHE_LINE_BYTES,
               "one line of facts, one of state");

/* The block handed out last. The owner may free it without a look-up. If no other block is then
 * handed out or freed, the next request of its class gets it again. */
struct pool_latest {
    void *block;           /* handed out last; NULL: freed since, or none            */
    uint64_t word;         /* value of hot_word once the block is free again         */
    struct pool_class *of; /* NULL: none, or hot moved, or another block was freed */
    void *back;            /* the block, once freed                                  */
};

struct calm_pool {
    /* Constant. Any thread. */
    char *blocks; /* the lowest address of any block */
    size_t blocks_bytes;
    uint64_t largest; /* declared block size */
    uint32_t class_count;
    uint32_t granule_shift;
    bool spills;
    bool is_mapped;
    bool is_locked;
    size_t bytes;
    uint64_t with_align[POOL_ALIGNS]; /* [log2] bit c: class c has that alignment */
    uint64_t declared[KEYS];          /* block bytes; UINT64_MAX past the last class         */
    uint64_t last_byte[KEYS];         /* of each class, from `blocks`; UINT64_MAX past the last */
    /* Bytes from the pool's start to a class. A granule with several classes has the last of them,
     * whose first blocks to be handed out lie in that granule. */
    uint16_t class_at[POOL_GRANULES];
    uint16_t class_of_size[POOL_TABLE_BYTES + 1];
    uint16_t class_of_kib[POOL_KIB]; /* larger sizes: [(size - 1) / 1024], or POOL_MIXED */

    /* Any thread, rarely. */
    _Alignas(CACHE_LINE_BYTES) _Atomic uint32_t detours;
    _Atomic uint64_t remote_misuses;
    _Alignas(CACHE_LINE_BYTES) pool_word pending[KEYS]; /* by class: root of its pending words */

    /* The owner's. */
    _Alignas(CACHE_LINE_BYTES) struct pool_latest latest;
    uint64_t failed;
    uint64_t spilled;
    uint64_t misuses;
    uint32_t drain_next;        /* the next class for calm_pool_drain */
    _Atomic uint32_t is_inside; /* with CHECKS 2: the owner is inside a call */

    /* The owner writes, any thread reads. Up to POOL_EXACT_MAX classes keep their only counts here,
     * so nothing is copied. */
    _Alignas(CACHE_LINE_BYTES) struct calm_pool_occupancy watch;

    pool_word nothing;                                      /* hot_word of an exhausted class */
    _Alignas(CACHE_LINE_BYTES) struct pool_class classes[]; /* class_count and an empty one */
};
_Static_assert(sizeof(struct calm_pool_occupancy) == CACHE_LINE_BYTES, "one line");
_Static_assert(offsetof(struct calm_pool, classes) % CACHE_LINE_BYTES == 0, "classes on lines");
_Static_assert(offsetof(struct calm_pool, classes) + (KEYS + 1) * sizeof(struct pool_class) <=
                   UINT16_MAX,
               "a class is told by 16 bits");

/* Words of one plane. Plane `freed` follows plane `free`. */
ALWAYS_INLINE uint32_t class_words(const struct pool_class *of)
{
    return (of->blocks + 63) >> LEVEL_BITS;
}

/* Begun words of `free`. */
ALWAYS_INLINE uint32_t words_begun(const struct pool_class *of)
{
    return (load(&of->begun, RELAXED) + 63) >> LEVEL_BITS;
}

/* The word of `freed` for a word of `free`. */
ALWAYS_INLINE pool_word *word_freed(const struct pool_class *of, pool_word *free)
{
    return free + class_words(of);
}

/* Two levels of 64 over the words of `freed`: the words in which a thread set a bit that the owner
 * has not inspected. The root is calm_pool.pending. */
ALWAYS_INLINE pool_word *pending_near(const struct pool_class *of)
{
    return of->free + 2 * (size_t)class_words(of);
}

ALWAYS_INLINE pool_word *pending_far(const struct pool_class *of)
{
    return pending_near(of) + ((class_words(of) + 63) >> LEVEL_BITS);
}

/* The result that a free of `block` would have; with CALM_OK, its usable bytes. Any thread. */
int pool_look(const calm_pool *pool, const void *block, size_t *usable);

/* Walks the whole pool. Owner only, without concurrent remote frees. */
verdict pool_verify(const calm_pool *pool);

#endif
