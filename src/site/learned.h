/*
 * learned.h: the policy that finds out which sites' blocks live long, and gives them cohorts of
 * their own.
 *
 * Sites are known by their index in the table of sites. Some are watched for a while: their
 * requests take the slow path (site/second.h), and some of these get a block whose free is told.
 * Design: docs/design/learned.md
 */
#ifndef CALM_SITE_LEARNED_H
#define CALM_SITE_LEARNED_H

#include "base/facts.h"

enum { LEARNED_LOG_MAX = 64 };

/* A site that moved. Times in KiB that passed through caches. */
struct learned_move {
    uint64_t at_kib;       /* when                                   */
    uint64_t lifetime_kib; /* of its blocks, on average, as far as it was seen */
    uint64_t live_bytes;   /* that it had then, estimated            */
    uint32_t bytes;        /* of a block, on average                 */
    uint16_t index;        /* the low bits of its address            */
    uint8_t from, to;      /* cohorts                                */
};

struct learned_facts {
    bool is_on;         /* the heap is large enough                        */
    uint64_t clock_kib; /* that passed through caches since it is on       */
    uint64_t decisions; /* so far                                          */
    uint64_t moves;     /* of sites to other cohorts                       */
    uint64_t samples;   /* blocks that were followed                       */
    uint64_t sites;     /* that have been watched                          */
    uint64_t cohorts;   /* that it has                                     */
};

/* Chooses the policy, and what its draws follow from. Before the heap is used. */
void learned_choose(uint64_t seed);

/* Begins. Once; false: not chosen, on already, or no memory, and the policy stays as `off`. */
bool learned_begin(void);

/* Whether requests of an index are to take the slow path. */
bool learned_watches(size_t index);

/* The cohort of an index. */
unsigned learned_cohort(size_t index);

/* Cohorts in use. */
size_t learned_cohorts(void);

extern HIDDEN _Atomic bool learned_is_on; /* since learned_begin() */

/* Counts a request of an index that is watched. Whether its block is to be followed. */
bool learned_request(size_t index, size_t bytes);

/* Follows a block that sampled_alloc() gave, until its free. */
void learned_follow(const void *block, size_t index);

/* The free of a followed block, before its memory can be handed out again; others are ignored. */
void learned_free(const void *block);

struct learned_facts learned_facts(void);

/* The latest moves, oldest first; room for LEARNED_LOG_MAX. Returns how many. */
size_t learned_log(struct learned_move *out);

size_t learned_mapped_bytes(void);
size_t learned_resident_bytes(void);

extern const struct watch_fact learned_table_facts[];

#endif
