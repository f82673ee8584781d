/*
 * profile.h: what the sampling profiler knows: stacks, and how much each of them holds and asked
 * for.
 *
 * A request is sampled with a probability that grows with its bytes (site/sample.c); what is told
 * here is scaled up again, so it is an estimate of all requests. Design: docs/design/profiler.md
 */
#ifndef CALM_SITE_PROFILE_H
#define CALM_SITE_PROFILE_H

#include "base/attr.h"

enum { PROFILE_DEPTH_MAX = 64 };

/* What writers call the stack of depth 0. */
#define PROFILE_OTHER_NAME "(other stacks)"

struct profile_stack {
    const uintptr_t *callers; /* innermost first: callers[0] is the site; for the visit only */
    size_t depth;             /* 0: of all stacks that have no place of their own            */
    uint64_t live_blocks, live_bytes, all_blocks, all_bytes; /* estimates */
};

struct profile_facts {
    uint64_t rate_bytes;   /* mean bytes between two samples; of the last start      */
    uint64_t start_ns;     /* of the first start, since 1970; 0: never started       */
    uint64_t duration_ns;  /* that the profiler was on, all starts together          */
    uint64_t samples;      /* taken since the first start, without those lost        */
    uint64_t samples_lost; /* for which the table of live blocks had no room        */
    uint64_t samples_cut;  /* of which only the site is known, or not even that     */
    bool is_on;
};

/*
 * Calls `visit` for every stack that has samples. A stack's numbers belong together; the whole is
 * one moment's only if nobody allocates. Takes no lock, needs no memory: any thread, also in a
 * signal handler and in a fork's child.
 */
void profile_visit(void (*visit)(const struct profile_stack *stack, void *context), void *context);

struct profile_facts profile_facts(void);

#endif
