/*
 * seen.c: the table of seen sites.
 *
 * Owner: any thread, one store at a time; its words are hints for reports. Design:
 * docs/design/watching.md
 */
#include "site/seen.h"

struct seen_site seen_sites[SITES];

const struct watch_fact seen_facts[] = {
    FACT_AT("seen.sites", seen_sites),
    FACT_NUMBER("seen.bytes", sizeof(struct seen_site)),
    FACT_NUMBER("seen.address", offsetof(struct seen_site, address)),
    FACT_NUMBER("seen.votes", offsetof(struct seen_site, votes)),
    FACTS_END,
};
