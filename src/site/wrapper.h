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
 * `is_exact`: nothing that the program's data can imitate may say who a wrapper's caller is. Before
 * the heap is used. */
void wrapper_start(bool is_exact);

/* Whether requests of an index of site_table must be diverted, for a wrapper has it. */
bool wrapper_has_index(size_t index);

extern const struct watch_fact wrapper_table_facts[];

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
 * for each layer another and a load; a walk where one layer is known to need it.
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

/*
 * Facts of known wrappers, a word each, so that nobody reads a part of one and a part of another;
 * 0: unused. From the top: the site's address without the bits that are 0 in every one; units of 16
 * bytes from the stack pointer after its return to that after its caller's; words to the one that
 * has the caller's address. No units: only a walk tells (WRAPPER_WALKED).
 */
enum {
    WRAPPER_FACTS_LOG2 = 8,
    WRAPPER_WAYS = 8,
    WRAPPER_KEPT_BITS = 9,
    WRAPPER_UNIT_BITS = 8,
    WRAPPER_UNIT_BYTES = 16, /* of stack: what a call is aligned to */
    WRAPPER_PLACE_BITS = WRAPPER_KEPT_BITS + WRAPPER_UNIT_BITS,
    WRAPPER_WALKED = 1,
    WRAPPER_UNITS_MASK = (1 << WRAPPER_PLACE_BITS) - (1 << WRAPPER_KEPT_BITS),
};
extern HIDDEN _Atomic uint64_t wrapper_facts[1 << WRAPPER_FACTS_LOG2];

ALWAYS_INLINE uint64_t wrapper_mix(uint64_t value)
{
    return value * 0x9E3779B97F4A7C15;
}

/* The ways of an address; the same in every run: what address randomisation changes does not count.
 */
ALWAYS_INLINE _Atomic uint64_t *wrapper_set(const void *site)
{
    size_t place = wrapper_mix(site_index(site)) >> (64 - WRAPPER_FACTS_LOG2);
    return &wrapper_facts[place & ~(size_t)(WRAPPER_WAYS - 1)];
}

/* Whether a fact is of that site; never of a tag, which has bits that no fact has room for. */
ALWAYS_INLINE bool wrapper_is_of(uint64_t fact, const void *site)
{
    return fact >> WRAPPER_PLACE_BITS == (uintptr_t)site >> CODE_ALIGN_LOG2;
}

ALWAYS_INLINE uintptr_t wrapper_kept_at(uintptr_t sp, uint64_t fact)
{
    return sp + (uintptr_t)(fact & ((1 << WRAPPER_KEPT_BITS) - 1)) * sizeof(uintptr_t);
}

/* The caller of a wrapper that is in the first way of its set, where that is quickly read. NULL:
 * wrapper_see_through() is to be asked. A caller that is a wrapper is not looked through. */
ALWAYS_INLINE const void *wrapper_caller_quick(const void *site, const void *frame)
{
    uint64_t fact = load(wrapper_set(site), RELAXED); /* F2 */
    uintptr_t sp = (uintptr_t)frame, at = wrapper_kept_at(sp, fact);
    bool is_placed = wrapper_is_of(fact, site) && (fact & WRAPPER_UNITS_MASK) != 0;
    if (unlikely(!is_placed || !os_stack_is_near(sp, at) || wrapper_is_due(WRAPPER_CALL)))
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
