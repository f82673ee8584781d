/*
 * profile.h: what the sampling profiler knows: stacks, and how much each of them holds and asked
 * for.
 *
 * A request is sampled with a probability that grows with its bytes (site/sample.c). The numbers
 * here are scaled up again: estimates of all requests. Design: docs/design/profiler.md
 */
#ifndef CALM_SITE_PROFILE_H
#define CALM_SITE_PROFILE_H

#include "base/attr.h"

enum { PROFILE_DEPTH_MAX = 64 };

/* The writers' name for the stack of depth 0. */
#define PROFILE_OTHER_NAME "(other stacks)"

struct profile_stack {
    const uintptr_t *callers; /* innermost first: callers[0] is the site; for the visit only */
    size_t depth;             /* 0: stands for all stacks without a row                      */
    uint64_t live_blocks, live_bytes, all_blocks, all_bytes; /* estimates */
};

struct profile_facts {
    uint64_t rate_bytes;   /* mean bytes between two samples; of the last start      */
    uint64_t start_ns;     /* of the first start, since 1970; 0: never started       */
    uint64_t duration_ns;  /* that the profiler was on, all starts together          */
    uint64_t samples;      /* since the first start, without lost ones               */
    uint64_t samples_lost; /* dropped: the table of live blocks was full            */
    uint64_t samples_cut;  /* stored with their site alone, or without it           */
    bool is_on;
};

/* Calls `visit` for every stack with samples. One stack's numbers are consistent; all together are
 * only while no thread allocates. Takes no lock, needs no memory: any thread, also in a signal
 * handler and in a fork's child. */
void profile_visit(void (*visit)(const struct profile_stack *stack, void *context), void *context);

struct profile_facts profile_facts(void);

#endif
