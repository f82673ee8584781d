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
#include "core/rows.h"

enum {
    INTERN_SITES_MAX = 1000,
    INTERN_BITS = 12, /* of an address that are its place in the table */
    INTERN_ROW_BITS = 16,
};

/* The address of a site, which has 48 bits at most, above its cohort's row; 0: none. */
extern HIDDEN _Atomic uint64_t intern_table[1 << INTERN_BITS];

struct intern_counts {
    uint64_t sites;    /* that have or had a cohort of their own */
    uint64_t retired;  /* of them                                */
    uint64_t overflow; /* sites that share the overflow cohort   */
};
struct intern_counts intern_counts(void);

/* The slow half of intern_offset(). */
uint32_t intern_find(const void *site);

/* The word at a site's place, which may be another's. */
ALWAYS_INLINE uint64_t intern_word(const void *site)
{
    uintptr_t place = (uintptr_t)site >> CODE_ALIGN_LOG2 & ((1 << INTERN_BITS) - 1);
    return load(&intern_table[place], RELAXED);
}

ALWAYS_INLINE bool intern_is_of(uint64_t word, const void *site)
{
    return word >> INTERN_ROW_BITS == (uintptr_t)site;
}

ALWAYS_INLINE uint32_t intern_word_offset(uint64_t word)
{
    return (uint32_t)(word & ((1 << INTERN_ROW_BITS) - 1)) * COHORT_ENTRY_BYTES;
}

/* The offset of the entries of the site's cohort in a cache. Any thread; takes no lock. */
ALWAYS_INLINE uint32_t intern_offset(const void *site)
{
    uint64_t word = intern_word(site);
    return likely(intern_is_of(word, site)) ? intern_word_offset(word) : intern_find(site);
}

#endif
