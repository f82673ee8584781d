/*
 * follow.h: the blocks that `learned` follows, by their addresses, with when and whose they were.
 *
 * A table in memory that reads as zero at first, of which only the first sets are used until more
 * room is asked for: few sites touch few pages. No lock, no waiting; docs/protocols/learned.md.
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
    uint16_t record; /* of its site           */
};

struct follow_way {
    _Atomic uintptr_t block;   /* its address, or free, or taken */
    _Atomic uint64_t followed; /* in one word */
};

struct follow_table {
    struct follow_way ways[FOLLOW_SETS * FOLLOW_WAYS];
    _Atomic uint32_t doublings; /* of the sets in use, so far               */
    uint32_t hand;              /* of follow_next(): one caller at a time */
};

/* Has the table use four ways for each of so many blocks, as far as it has them, so that a set is
 * hardly ever full. What was entered before is still found. */
void follow_make_room(struct follow_table *table, size_t blocks);

/* Enters a block that is the caller's. False: no room where it belongs. */
bool follow_begin(struct follow_table *table, const void *block, struct followed followed);

/* Takes a block out. False: it is not there. Of two threads that try, one has it. */
bool follow_end(struct follow_table *table, const void *block, struct followed *out);

/* Looks at the next way in use, round and round. False: no block is in it. What it says may be
 * another block's by then; follow_end() decides. */
bool follow_next(struct follow_table *table, const void **block, struct followed *out);

#endif
