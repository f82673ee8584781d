/*
 * learned.h: the policy that finds sites with long-lived blocks, and gives them cohorts of their
 * own.
 *
 * Sites are known by their index in the table of sites. Some are watched for a while: their
 * requests take the slow path (site/second.h), and some of these get a block whose free is
 * reported. Design: docs/design/learned.md
 */
#ifndef CALM_SITE_LEARNED_H
#define CALM_SITE_LEARNED_H

#include "base/facts.h"

enum { LEARNED_LOG_MAX = 64 };

/* A site that moved. Times in KiB that passed through caches. */
struct learned_move {
    uint64_t at_kib;       /* when                                   */
    uint64_t lifetime_kib; /* mean of its blocks, as far as observed */
    uint64_t live_bytes;   /* estimate, at that time                 */
    uint32_t bytes;        /* mean size of a block                   */
    uint16_t index;        /* the low bits of its address            */
    uint8_t from, to;      /* cohorts                                */
};

struct learned_facts {
    bool is_on;         /* the heap is large enough                        */
    uint64_t clock_kib; /* passed through caches since `is_on`             */
    uint64_t decisions; /* so far                                          */
    uint64_t moves;     /* of sites to other cohorts                       */
    uint64_t samples;   /* blocks followed so far                          */
    uint64_t sites;     /* watched so far                                  */
    uint64_t cohorts;   /* in use                                          */
};

/* Chooses the policy; its draws follow from `seed`. Call before the heap is used. */
void learned_choose(uint64_t seed);

/* Begins, once. False: not chosen, on already, or no memory, after which the policy acts as
 * `off`. */
bool learned_begin(void);

/* Whether requests of an index take the slow path. */
bool learned_watches(size_t index);

unsigned learned_cohort(size_t index);

/* Number of cohorts in use. */
size_t learned_cohorts(void);

extern HIDDEN _Atomic bool learned_is_on; /* since learned_begin() */

/* Counts a request of a watched index. Whether its block is to be followed. */
bool learned_request(size_t index, size_t bytes);

/* Follows a block of sampled_alloc() until its free. */
void learned_follow(const void *block, size_t index);

/* Ends a followed block, before its memory can be allocated again. Ignores other blocks. */
void learned_free(const void *block);

struct learned_facts learned_facts(void);

/* Writes the latest moves, oldest first, to `out`, with room for LEARNED_LOG_MAX. Returns their
 * number. */
size_t learned_log(struct learned_move *out);

size_t learned_mapped_bytes(void);
size_t learned_resident_bytes(void);

extern const struct watch_fact learned_table_facts[];

#endif
