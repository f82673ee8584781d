/*
 * live.h: the sampled blocks that are not freed yet, by their addresses.
 *
 * A table of fixed size, in memory that the caller provides once; an end never needs memory. No
 * lock, no waiting; docs/protocols/profile.md.
 */
#ifndef CALM_SITE_LIVE_H
#define CALM_SITE_LIVE_H

#include "site/stacks.h"

enum { LIVE_SETS = 4096, LIVE_WAYS = 16 };

struct live_sample {
    uint32_t stack; /* its number */
    struct estimate estimate;
};

size_t live_bytes(void);
void live_start(void *memory);

/* Enters a block that is the caller's. False: no room where it belongs. */
bool live_begin(const void *block, struct live_sample sample);

/* Takes a block out. False: it is not there. Of two threads that try, one has it. */
bool live_end(const void *block, struct live_sample *out);

extern const struct watch_fact live_facts[];

#endif
