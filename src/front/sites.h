/*
 * sites.h: who asks for memory, as far as samples of stacks have told: addresses that requests
 * return to, and which of them are wrappers that are looked through.
 */
#ifndef CALM_FRONT_SITES_H
#define CALM_FRONT_SITES_H

#include "base/attr.h"

/*
 * Writes what is known as one JSON object: for each module its path and its sites, by the offset
 * that debuggers use. Allocates nothing. 0 or a positive errno value.
 */
int sites_write_json(int fd);

#endif
