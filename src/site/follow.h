/*
 * follow.h: the blocks that `learned` follows, by address, with their birth and their site's
 * record.
 *
 * A table in memory that reads as zero at first. Only its first sets are used until more room is
 * asked for: few sites touch few pages. No lock, no waiting; docs/protocols/learned.md.
 */
#ifndef CALM_SITE_FOLLOW_H
#define CALM_SITE_FOLLOW_H

#include "base/atomic.h"
#include "base/attr.h"

enum {
    FOLLOW_SETS_LOG2_FIRST = 5,
    FOLLOW_DOUBLINGS = 5,
    FOLLOW_SETS = 1 << (FOLLOW_SETS_LOG2_FIRST + FOLLOW_DOUBLINGS),
    FOLLOW_WAYS = 8,
    FOLLOW_STEP = 128,
};

struct followed {
    uint32_t birth;  /* by the caller's clock */
    uint16_t record; /* of the block's site   */
};

struct follow_way {
    _Atomic uintptr_t block;   /* address, or free, or taken */
    _Atomic uint64_t followed; /* packed into a word       */
};

struct follow_table {
    struct follow_way ways[FOLLOW_SETS * FOLLOW_WAYS];
    _Atomic uint32_t doublings; /* of the sets in use, so far               */
    uint32_t clock_hand;        /* of follow_next(): one caller at a time */
};

/* Uses at least four ways for each of so many blocks, as far as the table has them, so that a set
 * is hardly ever full. Earlier blocks are still found. */
void follow_make_room(struct follow_table *table, size_t blocks);

/* Enters a block that the caller owns. False: its set is full. */
bool follow_begin(struct follow_table *table, const void *block, struct followed followed);

/* Removes a block. False: not there. Of two threads that try, one succeeds. */
bool follow_end(struct follow_table *table, const void *block, struct followed *out);

/* Reads the next way in use, round and round. False: it has no block. The way may have another
 * block by then: follow_end() decides. */
bool follow_next(struct follow_table *table, const void **block, struct followed *out);

#endif
