/*
 * pool.h: what a pool is made of.
 *
 * Two planes of bits, apart from the blocks. A bit of `free` says that the owner has the block to
 * hand out; the owner alone writes it, by plain stores. A bit of `freed` is set by whoever frees a
 * block while others may, with one locked instruction, and is reset when the block is handed out.
 * `pending` says which words of `freed` the owner has to look at. All that the owner decides by is
 * `free` and what is made of it, so nothing another thread does can make it wrong.
 * docs/protocols/pool-remote.md has states, steps and proofs.
 *
 * A class's words are begun one after the other, when its lower ones have nothing left: until then
 * nothing of theirs is written, here or in the levels, so that what a program never uses of a pool
 * takes no memory where pages come when first touched.
 *
 * Invariants, held by pool_verify():
 *   P0 begun is whole words, or all blocks; words behind it are looked at by nobody.
 *   P1 bits behind a class's last block are 0 in both planes.
 *   P2 `near` has exactly the words with a bit of `free`, and `hot`, which may have none left.
 *   P3 the count is the number of bits of `free`, and of blocks that are not begun.
 *   P4 hot is the lowest word that `near` has, or POOL_NONE; hot_word and hot_start are its own.
 *   P5 the watch line says no more than the counts.
 *   P6 latest.word is hot_word with the block that was handed out last, as long as that is used,
 * and the block is the lowest there.
 *   P7 a word with a bit of `freed` that `free` has not is pending, and so is what is above it.
 */
#ifndef CALM_POOL_POOL_H
#define CALM_POOL_POOL_H

#include "base/atomic.h"
#include "base/check.h"
#include "calmalloc/pool.h"
#include "pool/levels.h"

enum {
    POOL_TABLE_BYTES = 4096, /* sizes up to this find their class in a table            */
    POOL_KIB = 1024,         /* above, those from one KiB to the next are of one class mostly */
    POOL_GRANULES = 256,     /* parts of the blocks' range that each have a table entry */
    POOL_MIXED = 0,          /* an entry: several classes have sizes of this KiB        */
    POOL_ALIGNS = 13,        /* 2^0 to 2^12 */
    POOL_EXACT_MAX = 14,     /* classes whose free blocks are counted in the watch line */
};

/* What keeps the owner's calls from the shortest way: bits of calm_pool.detours. */
enum {
    POOL_WAS_REMOTE = 1, /* a remote free was ever begun; for good          */
    POOL_IS_CODED = 2,   /* more than POOL_EXACT_MAX classes; from the start */
};

#define POOL_NONE UINT32_MAX

/* The bits of 64 blocks in one plane. */
typedef _Atomic uint64_t pool_word;

struct pool_class {
    /* Constant. Any thread. */
    pool_word *free;  /* the owner writes, any thread reads                      */
    size_t blocks_at; /* of the first block, from the pool's first possible one  */
    uint64_t inverse; /* of the odd part of stride, modulo 2^64                  */
    uint64_t *near;
    uint64_t *far;
    uint32_t stride;
    _Atomic uint32_t begun; /* blocks of the words begun; the owner writes, any thread reads */
    uint32_t blocks;        /* 0: what is behind the last class, for requests of no class */
    uint16_t align;
    uint8_t shift; /* stride is its odd part << shift */
    uint8_t index;
    _Atomic uint32_t *count; /* of its free blocks: in the watch line, or `counted` */

    /* The owner's. */
    _Alignas(CACHE_LINE_BYTES) pool_word *hot_word; /* or a word that is 0 for ever */
    char *hot_start;                                /* the word's first block       */
    uint64_t root;
    uint64_t allocs;
    uint64_t remote_frees;
    uint32_t hot;
    _Atomic uint32_t counted; /* free blocks, where the watch line has codes                */
    uint32_t least_free;
    uint32_t found_last; /* remote frees that the last look found                           */
};
_Static_assert(sizeof(struct pool_class) == 2 * CACHE_LINE_BYTES,
               "one line of facts, one of state");

/* The block that was handed out last, which the owner may free without looking it up; and once it
 * has, and nothing else was freed or handed out, the next request of its class has it again. */
struct pool_latest {
    void *block;           /* handed out; NULL: freed since, or none                 */
    uint64_t word;         /* what hot_word is once the block is free again          */
    struct pool_class *of; /* NULL: none, or hot moved on, or another block was freed */
    void *back;            /* the block, once it was freed                           */
};

struct calm_pool {
    /* Constant. Any thread. */
    char *blocks; /* the first byte that may be a block's */
    size_t blocks_bytes;
    uint64_t largest; /* declared block */
    uint32_t class_count;
    uint32_t granule_shift;
    bool spills;
    bool is_mapped;
    bool is_locked;
    size_t bytes;
    uint64_t with_align[POOL_ALIGNS]; /* bit c: class c is aligned to 2^index */
    uint64_t declared[KEYS];          /* block bytes; UINT64_MAX past the last class         */
    uint64_t last_byte[KEYS];         /* of each class's range, from `blocks`; the same past */
    /* Bytes from the pool's own first to the class; of a part with several, to the last of them:
     * what is handed out first of a class lies where it begins. */
    uint16_t class_at[POOL_GRANULES];
    uint16_t class_of_size[POOL_TABLE_BYTES + 1];
    uint16_t class_of_kib[POOL_KIB]; /* sizes above, by size - 1; or POOL_MIXED */

    /* Any thread, seldom. */
    _Alignas(CACHE_LINE_BYTES) _Atomic uint32_t detours;
    _Atomic uint64_t remote_misuses;
    _Alignas(
        CACHE_LINE_BYTES) pool_word pending[KEYS]; /* by class: the root of its pending words */

    /* The owner's. */
    _Alignas(CACHE_LINE_BYTES) struct pool_latest latest;
    uint64_t failed;
    uint64_t spilled;
    uint64_t misuses;
    uint32_t drain_next;        /* the class that calm_pool_drain comes to next */
    _Atomic uint32_t is_inside; /* with CHECKS 2: the owner is in one of its calls */

    /* The owner writes, anyone reads. Up to POOL_EXACT_MAX classes have their counts here and
     * nowhere else, so that there is nothing to copy. */
    _Alignas(CACHE_LINE_BYTES) struct calm_pool_occupancy watch;

    pool_word nothing; /* what hot_word of an exhausted class points to */
    _Alignas(CACHE_LINE_BYTES) struct pool_class classes[]; /* class_count and one with no blocks */
};
_Static_assert(sizeof(struct calm_pool_occupancy) == CACHE_LINE_BYTES, "one line");
_Static_assert(offsetof(struct calm_pool, classes) % CACHE_LINE_BYTES == 0, "classes on lines");
_Static_assert(offsetof(struct calm_pool, classes) + (KEYS + 1) * sizeof(struct pool_class) <=
                   UINT16_MAX,
               "a class is told by 16 bits");

/* Words of a plane; that of `freed` follows that of `free`. */
ALWAYS_INLINE uint32_t class_words(const struct pool_class *of)
{
    return (of->blocks + 63) >> LEVEL_BITS;
}

/* Of `free`, those that have been begun. */
ALWAYS_INLINE uint32_t words_begun(const struct pool_class *of)
{
    return (load(&of->begun, RELAXED) + 63) >> LEVEL_BITS;
}

/* The word of remote frees that belongs to a word of `free`. */
ALWAYS_INLINE pool_word *word_freed(const struct pool_class *of, pool_word *free)
{
    return free + class_words(of);
}

/* Two levels of 64 over the words of `freed`, the root of which is in the pool: those in which a
 * thread set a bit and the owner has not looked since. */
ALWAYS_INLINE pool_word *pending_near(const struct pool_class *of)
{
    return of->free + 2 * (size_t)class_words(of);
}

ALWAYS_INLINE pool_word *pending_far(const struct pool_class *of)
{
    return pending_near(of) + ((class_words(of) + 63) >> LEVEL_BITS);
}

/* What a free of `block` would say; CALM_OK and the bytes that may be used. Any thread. */
int pool_look(const calm_pool *pool, const void *block, size_t *usable);

/* Walks the whole pool. Owner only, no remote free meanwhile. */
verdict pool_verify(const calm_pool *pool);

#endif
