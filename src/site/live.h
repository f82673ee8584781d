/*
 * live.h: the sampled blocks that are not freed yet, by address.
 *
 * A table of fixed size, in memory that the caller provides once; an end never needs memory. No
 * lock, no waiting; docs/protocols/profile.md.
 */
#ifndef CALM_SITE_LIVE_H
#define CALM_SITE_LIVE_H

#include "site/stacks.h"

enum { LIVE_SETS = 4096, LIVE_WAYS = 16 };

struct live_sample {
    uint32_t stack; /* row of its stack */
    struct estimate estimate;
};

size_t live_bytes(void);
void live_start(void *memory);

/* Enters a block that the caller owns. False: its set is full. */
bool live_begin(const void *block, struct live_sample sample);

/* Removes a block. False: not there. Of two threads that try, one succeeds. */
bool live_end(const void *block, struct live_sample *out);

extern const struct watch_fact live_facts[];

#endif
