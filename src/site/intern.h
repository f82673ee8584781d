/*
 * intern.h: policy `intern`: each site has a cohort of its own, known by its full address.
 *
 * Up to INTERN_SITES_MAX sites get a cohort each; later ones, and code that is in no module, share
 * one more, the overflow cohort. What each cohort has is its own for ever (core/rows.h). A site
 * whose module was unloaded is retired: neither its cohort nor what it had goes to another.
 * Design: docs/design/intern.md
 */
#ifndef CALM_SITE_INTERN_H
#define CALM_SITE_INTERN_H

#include "base/atomic.h"
#include "base/facts.h"
#include "core/rows.h"

enum {
    INTERN_SITES_MAX = 1000,
    INTERN_BITS = 12, /* of an address that are its place in the set */
};

/* Sites with the offset of their cohort's entries in a cache, each at one of two places that its
 * address says. Two words, but a place is one site's for good: who finds its address finds its
 * offset, or still 0, which is of no cohort. */
struct intern_table {
    _Atomic uintptr_t sites[1 << INTERN_BITS];
    _Atomic uint32_t offsets[1 << INTERN_BITS];
};
extern HIDDEN struct intern_table intern_known;

/* Where a request may look whether its return address has a cohort that it may have at once: what
 * is known while nobody samples, else an empty table, as with the other policies. */
extern HIDDEN const struct intern_table *_Atomic intern_quick;
void intern_allow_quick(bool is_allowed);

struct intern_counts {
    uint64_t sites;    /* that have or had a cohort of their own */
    uint64_t retired;  /* of them                                */
    uint64_t overflow; /* sites that share the overflow cohort   */
};
struct intern_counts intern_counts(void);

extern const struct watch_fact intern_facts[];

/* Retires a site that turned out to be a wrapper's: its callers are sites of their own from now on.
 * Any thread. */
void intern_retire(const void *site);

/* The slow half of intern_offset(). */
uint32_t intern_find(const void *site);

/* Where a site is looked for first, and after that. */
ALWAYS_INLINE size_t intern_place(const void *site)
{
    return (uintptr_t)site >> CODE_ALIGN_LOG2 & ((1 << INTERN_BITS) - 1);
}

ALWAYS_INLINE size_t intern_other_place(size_t place)
{
    return place ^ 1 << (INTERN_BITS - 1);
}

ALWAYS_INLINE bool intern_has_at(const struct intern_table *table, size_t place, const void *site)
{
    return load(&table->sites[place], RELAXED) == (uintptr_t)site;
}

/* The offset of the entries of a site's cohort in a cache. 0: the table does not have it, or not
 * yet. */
ALWAYS_INLINE uint32_t intern_look(const struct intern_table *table, const void *site)
{
    size_t place = intern_place(site);
    if (unlikely(!intern_has_at(table, place, site))) {
        place = intern_other_place(place);
        if (!intern_has_at(table, place, site))
            return 0;
    }
    return load(&table->offsets[place], RELAXED);
}

/* The same of a site that is known. Any thread; takes no lock. */
ALWAYS_INLINE uint32_t intern_offset(const void *site)
{
    uint32_t offset = intern_look(&intern_known, site);
    return likely(offset != 0) ? offset : intern_find(site);
}

#endif
