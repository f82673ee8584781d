/*
 * pprof.h: writes profile.proto in gzip, for `go tool pprof` and most viewers of profiles.
 */
#ifndef CALM_SITE_PPROF_H
#define CALM_SITE_PPROF_H

#include "site/module_table.h"
#include "site/profile_out.h"
#include "site/profile_write.h"

enum {
    PPROF_LOCATION_BITS = 17,
    PPROF_LOCATION_SLOTS = 1 << PPROF_LOCATION_BITS,
    PPROF_LOCATIONS_MAX = PPROF_LOCATION_SLOTS / 2, /* distinct ones */
};

/* Addresses that have a location already; a hash table with linear probing. */
struct pprof_locations {
    size_t count;
    struct {
        uintptr_t address; /* 0: the slot is free */
        uint64_t id;
    } slots[PPROF_LOCATION_SLOTS];
};

/* `locations` must read as zero. */
void pprof_write(struct profile_out *out, const struct profile_source *source,
                 const struct module_table *modules, struct pprof_locations *locations);

#endif
