/*
 * intern.h: policy `intern`: each site, by its full address, has a cohort of its own.
 *
 * The first INTERN_SITES_MAX sites get a cohort each; later sites, and code in no module, share the
 * overflow cohort. A cohort keeps its memory for ever (core/rows.h). A site whose module was
 * unloaded is retired: neither its cohort nor its memory goes to another site.
 * Design: docs/design/intern.md
 */
#ifndef CALM_SITE_INTERN_H
#define CALM_SITE_INTERN_H

#include "base/atomic.h"
#include "base/facts.h"
#include "core/rows.h"

enum {
    INTERN_SITES_MAX = 1000,
    INTERN_BITS = 12, /* bits of an address that select its place */
};

/* Sites with the offset of their cohort's entries in a cache, each at one of two places that its
 * address selects. A place is one site's for good, so two words suffice: a reader that finds its
 * address finds its offset, or still 0, which is of no cohort. */
struct intern_table {
    _Atomic uintptr_t sites[1 << INTERN_BITS];
    _Atomic uint32_t offsets[1 << INTERN_BITS];
};
extern HIDDEN struct intern_table intern_known;

/* Table in which a request may find its return address's cohort at once: `intern_known`, or an
 * empty table while the profiler is on and with the other policies. */
extern HIDDEN const struct intern_table *_Atomic intern_quick;
void intern_allow_quick(bool is_allowed);

struct intern_counts {
    uint64_t sites;    /* that have or had a cohort of their own */
    uint64_t retired;  /* of these, retired                      */
    uint64_t overflow; /* sites that share the overflow cohort   */
};
struct intern_counts intern_counts(void);

extern const struct watch_fact intern_facts[];

/* Retires a site that is a wrapper's: from now on its callers are sites of their own. Any
 * thread. */
void intern_retire(const void *site);

/* Slow half of intern_offset(). */
uint32_t intern_find(const void *site);

/* A site's first place; its other one is intern_other_place(). */
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

/* Offset of the entries of a site's cohort in a cache. 0: not in the table, or not yet. */
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

/* Offset of the entries of a site's cohort in a cache; a new site gets a cohort. Any thread; takes
 * no lock. */
ALWAYS_INLINE uint32_t intern_offset(const void *site)
{
    uint32_t offset = intern_look(&intern_known, site);
    return likely(offset != 0) ? offset : intern_find(site);
}

#endif
