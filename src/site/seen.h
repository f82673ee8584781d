/*
 * seen.h: lists the sites for reports: the most frequent address at each index of the table of
 * sites.
 *
 * Noted where a request found its cache empty, so the fast paths pay nothing. Of sites that share
 * an index the most frequent stays, by majority vote: each request of another takes one vote away.
 * Lost updates between threads cost a vote.
 */
#ifndef CALM_SITE_SEEN_H
#define CALM_SITE_SEEN_H

#include "base/facts.h"
#include "site/site.h"

struct seen_site {
    _Atomic uintptr_t address; /* to which requests return */
    _Atomic uint64_t votes;    /* for `address`            */
};

extern HIDDEN struct seen_site seen_sites[SITES];
extern const struct watch_fact seen_facts[];

/* Cost: two loads, a store. */
ALWAYS_INLINE void seen_note(const void *site)
{
    struct seen_site *seen = &seen_sites[site_index(site)];
    uint64_t votes = load(&seen->votes, RELAXED);
    bool is_known = load(&seen->address, RELAXED) == (uintptr_t)site;
    if (unlikely(!is_known && votes == 0)) {
        store(&seen->address, (uintptr_t)site, RELAXED);
        is_known = true;
    }
    store(&seen->votes, is_known ? votes + 1 : votes - 1, RELAXED);
}

#endif
