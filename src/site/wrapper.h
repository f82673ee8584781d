/*
 * wrapper.h: finds allocation wrappers, such as xmalloc or g_malloc, and looks through them, so
 * that the site is the wrapper's caller.
 *
 * A wrapper is an address that requests return to and from which the stacks diverge: several
 * callers ask for different sizes. Samples of the stack find it, taken now and then of requests
 * that a cache could not serve. From then on its index in site_table is diverted, and the second
 * front end asks wrapper_see_through() for the caller: a look-up and a load for each layer, as a
 * rule no walk. Nothing here takes a lock or allocates. Design: docs/design/wrappers.md
 */
#ifndef CALM_SITE_WRAPPER_H
#define CALM_SITE_WRAPPER_H

#include "base/atomic.h"
#include "os/stack.h"
#include "site/site.h"

enum { WRAPPER_DEPTH_MAX = 3 }; /* layers that are looked through */

/* When wrappers are looked for: never; from wrapper_start() on; from the first request on. */
enum wrapper_use { WRAPPERS_OFF, WRAPPERS_AUTO, WRAPPERS_ON };

/* Call before the heap is used. */
void wrapper_configure(enum wrapper_use use);

/* Looks for wrappers from now on, unless WRAPPERS_OFF; called by a policy that separates sites.
 * `is_exact`: only evidence that the program's data cannot imitate may tell a wrapper's caller.
 * Call before the heap is used. */
void wrapper_start(bool is_exact);

/* Whether an index of site_table must be diverted because a wrapper has it. */
bool wrapper_has_index(size_t index);

extern const struct watch_fact wrapper_table_facts[];

/* A bit for each index of site_table that a wrapper's fact has or had. */
extern HIDDEN _Atomic uint64_t wrapper_indices[SITES / 64];

/* False: wrapper_see_through() knows no fact of the site. */
ALWAYS_INLINE bool wrapper_may_be(const void *site)
{
    size_t index = site_index(site);
    return (load(&wrapper_indices[index / 64], RELAXED) >> index % 64 & 1) != 0;
}

/* The site that counts for a request: `site`, or, as long as `site` is a known wrapper's, its
 * caller's. `frame`: the stack pointer after the return to `site`. Cost: a look-up, and for each
 * layer another and a load; a walk where one layer is known to need it. */
const void *wrapper_see_through(const void *site, const void *frame);

/* Drops the facts of unloaded modules, as wrapper_look() does for one fact. Any thread; takes no
 * lock. */
void wrapper_forget_unloaded(void);

/* Samples the stack of a request, to find wrappers and to prove known ones. */
void wrapper_look(size_t bytes, const void *site);

extern HIDDEN _Thread_local int32_t wrapper_countdown; /* weighted requests before the next look */

/* Weight of a request: one that a cache could not serve stands for the ones that it could. */
enum { WRAPPER_CALL = 1, WRAPPER_MISS = 64 };

/* Counts a request on a slow path. Whether a look is due. */
ALWAYS_INLINE bool wrapper_is_due(int32_t counts_for)
{
    wrapper_countdown -= counts_for;
    return unlikely(wrapper_countdown < 0);
}

/* Counts a request on a slow path, and looks if a look is due. */
ALWAYS_INLINE void wrapper_tick(int32_t counts_for, size_t bytes, const void *site)
{
    if (wrapper_is_due(counts_for))
        wrapper_look(bytes, site);
}

enum wrapper_state {
    WRAPPER_NO,    /* as far as is known, a site of its own           */
    WRAPPER_FOUND, /* its stacks diverge; proofs are being gathered   */
    WRAPPER_KNOWN, /* proved, and looked through                      */
    WRAPPER_BLIND, /* its stacks diverge, but its caller cannot be found */
};

/*
 * Facts of known wrappers, one word each, so that no reader mixes two facts; 0: unused. From the
 * top: the site's address without the low bits that are always 0; units of 16 bytes from the stack
 * pointer after its return to the one after its caller's return; words from the former to the
 * caller's address. No units: only a walk finds the caller (WRAPPER_WALKED).
 */
enum {
    WRAPPER_FACTS_LOG2 = 8,
    WRAPPER_WAYS = 8,
    WRAPPER_KEPT_BITS = 9,
    WRAPPER_UNIT_BITS = 8,
    WRAPPER_UNIT_BYTES = 16, /* of stack: a call's alignment */
    WRAPPER_PLACE_BITS = WRAPPER_KEPT_BITS + WRAPPER_UNIT_BITS,
    WRAPPER_WALKED = 1,
    WRAPPER_UNITS_MASK = (1 << WRAPPER_PLACE_BITS) - (1 << WRAPPER_KEPT_BITS),
};
extern HIDDEN _Atomic uint64_t wrapper_facts[1 << WRAPPER_FACTS_LOG2];

ALWAYS_INLINE uint64_t wrapper_mix(uint64_t value)
{
    return value * 0x9E3779B97F4A7C15;
}

/* Set of an address. The same in every run: address randomisation does not change site_index(). */
ALWAYS_INLINE _Atomic uint64_t *wrapper_set(const void *site)
{
    size_t place = wrapper_mix(site_index(site)) >> (64 - WRAPPER_FACTS_LOG2);
    return &wrapper_facts[place & ~(size_t)(WRAPPER_WAYS - 1)];
}

/* Whether a fact is of the site; never true for a tag, which has bits that no fact has room for. */
ALWAYS_INLINE bool wrapper_is_of(uint64_t fact, const void *site)
{
    return fact >> WRAPPER_PLACE_BITS == (uintptr_t)site >> CODE_ALIGN_LOG2;
}

ALWAYS_INLINE uintptr_t wrapper_kept_at(uintptr_t sp, uint64_t fact)
{
    return sp + (uintptr_t)(fact & ((1 << WRAPPER_KEPT_BITS) - 1)) * sizeof(uintptr_t);
}

/* Caller of a wrapper whose fact is in the first way of its set, where the caller is quickly read.
 * NULL: call wrapper_see_through(). Does not look through a caller that is a wrapper itself. */
ALWAYS_INLINE const void *wrapper_caller_quick(const void *site, const void *frame)
{
    uint64_t fact = load(wrapper_set(site), RELAXED); /* F2 */
    uintptr_t sp = (uintptr_t)frame, at = wrapper_kept_at(sp, fact);
    bool is_placed = wrapper_is_of(fact, site) && (fact & WRAPPER_UNITS_MASK) != 0;
    if (unlikely(!is_placed || !os_stack_is_near(sp, at) || wrapper_is_due(WRAPPER_CALL)))
        return NULL;
    return (const void *)os_stack_word(sp, at);
}

/* What samples found at one address that requests or known wrappers return to. */
struct wrapper_fact {
    uintptr_t site;
    uint32_t samples;
    uint32_t callers; /* different callers seen; 4 stands for 4 and more */
    uint32_t sizes;   /* different sizes asked for; 4 stands for 4 and more */
    enum wrapper_state state;
};

/* Visits all addresses with samples, in no order. Any thread. */
void wrapper_visit(void (*visit)(const struct wrapper_fact *fact, void *context), void *context);

struct wrapper_counts {
    size_t known;
    size_t blind;
    uint64_t looks;
    uint64_t mismatches; /* failed proofs: the look-up did not give the walk's caller */
};
struct wrapper_counts wrapper_counts(void);

#endif
