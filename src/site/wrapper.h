/*
 * wrapper.h: allocation wrappers, as xmalloc or g_malloc: found by themselves, and looked through,
 * so that the site is the wrapper's caller.
 *
 * A wrapper is an address that requests return to and from which the stacks diverge: several
 * callers, who ask for different sizes. It is found by samples of the stack, taken now and then of
 * requests that a cache could not serve. From then on its index in site_table is diverted, and the
 * second front end asks wrapper_see_through() for the caller: a look-up and a load for each layer,
 * no walk. Nothing here takes a lock or allocates. Design: docs/design/wrappers.md
 */
#ifndef CALM_SITE_WRAPPER_H
#define CALM_SITE_WRAPPER_H

#include "base/atomic.h"
#include "os/stack.h"
#include "site/site.h"

enum { WRAPPER_DEPTH_MAX = 3 }; /* layers that are looked through */

/* Never; once wrapper_start is called; from the first request on. */
enum wrapper_use { WRAPPERS_OFF, WRAPPERS_AUTO, WRAPPERS_ON };

/* Before the heap is used. */
void wrapper_configure(enum wrapper_use use);

/* A policy that keeps sites apart is in use: looks for wrappers from now on, unless that is off.
 * Any thread. */
void wrapper_start(void);

/* Whether requests of an index of site_table must be diverted, for a wrapper has it. */
bool wrapper_has_index(size_t index);

/* Bits by index of site_table: where facts of wrappers are, or were. */
extern HIDDEN _Atomic uint64_t wrapper_indices[SITES / 64];

/* False: the site is none that wrapper_see_through() knows. */
ALWAYS_INLINE bool wrapper_may_be(const void *site)
{
    size_t index = site_index(site);
    return (load(&wrapper_indices[index / 64], RELAXED) >> index % 64 & 1) != 0;
}

/*
 * The site that counts for a request: `site`, or, as long as that is a known wrapper's, its
 * caller's. `frame`: where the stack pointer is after the return to `site`. Cost: a look-up, and
 * for each layer another and a load.
 */
const void *wrapper_see_through(const void *site, const void *frame);

/* Forgets what is known of modules that were unloaded. Looks do so, too, one wrapper at a time. Any
 * thread; takes no lock. */
void wrapper_forget_gone(void);

/* Samples the stack of a request, to find wrappers and to prove what is known. */
void wrapper_look(size_t bytes, const void *site);

extern HIDDEN _Thread_local int32_t wrapper_looks_in; /* what is left before the next look */

/* What a request counts for: one that a cache could not serve stands for those that it could. */
enum { WRAPPER_CALL = 1, WRAPPER_MISS = 64 };

/* On slow paths, counted for so much: whether it is time for a look. */
ALWAYS_INLINE bool wrapper_is_due(int32_t counts_for)
{
    wrapper_looks_in -= counts_for;
    return unlikely(wrapper_looks_in < 0);
}

/* Looks once in a while. */
ALWAYS_INLINE void wrapper_tick(int32_t counts_for, size_t bytes, const void *site)
{
    if (wrapper_is_due(counts_for))
        wrapper_look(bytes, site);
}

enum wrapper_state {
    WRAPPER_NO,    /* as far as is known, a site of its own           */
    WRAPPER_FOUND, /* its stacks diverge; proofs are being gathered   */
    WRAPPER_KNOWN, /* and it is looked through                        */
    WRAPPER_BLIND, /* they diverge, but its caller cannot be told     */
};

/* Where a known wrapper keeps its caller's address, in bytes above the frame of the request, in the
 * high half of `distance`. */
struct wrapper_place {
    _Atomic uintptr_t site;    /* 0: unused */
    _Atomic uint64_t distance; /* 0: not to be used */
};
enum { WRAPPER_PLACES_LOG2 = 8, WRAPPER_WAYS = 4, WRAPPER_KEPT_SHIFT = 32 };
extern HIDDEN struct wrapper_place wrapper_places[1 << WRAPPER_PLACES_LOG2];

ALWAYS_INLINE uint64_t wrapper_mix(uint64_t value)
{
    return value * 0x9E3779B97F4A7C15;
}

/* The ways of an address; the same in every run: what address randomisation changes does not count.
 */
ALWAYS_INLINE struct wrapper_place *wrapper_set(const void *site)
{
    size_t place = wrapper_mix(site_index(site)) >> (64 - WRAPPER_PLACES_LOG2);
    return &wrapper_places[place & ~(size_t)(WRAPPER_WAYS - 1)];
}

/* The caller of a wrapper that is in the first way of its set, where that is quickly read. NULL:
 * wrapper_see_through() is to be asked. A caller that is a wrapper is not looked through. */
ALWAYS_INLINE const void *wrapper_caller_quick(const void *site, const void *frame)
{
    const struct wrapper_place *place = wrapper_set(site);
    uint64_t distance = load(&place->distance, ACQUIRE); /* F3 */
    uintptr_t sp = (uintptr_t)frame, at = sp + (uintptr_t)(distance >> WRAPPER_KEPT_SHIFT);
    bool is_here = load(&place->site, RELAXED) == (uintptr_t)site && distance != 0;
    if (unlikely(!is_here || !os_stack_is_near(sp, at) || wrapper_is_due(WRAPPER_CALL)))
        return NULL;
    return (const void *)os_stack_word(sp, at);
}

/* What was sampled of one address that requests, or known wrappers, return to. */
struct wrapper_fact {
    uintptr_t site;
    uint32_t samples;
    uint32_t callers; /* different ones seen: 4 stands for 4 and more */
    uint32_t sizes;   /* of bytes asked for, the same */
    enum wrapper_state state;
};

/* Visits all that is known, in no order. Any thread. */
void wrapper_visit(void (*visit)(const struct wrapper_fact *fact, void *context), void *context);

struct wrapper_counts {
    size_t known;
    size_t blind;
    uint64_t looks;
    uint64_t mismatches; /* proofs that failed: the look-up did not give the walk's caller */
};
struct wrapper_counts wrapper_counts(void);

#endif
