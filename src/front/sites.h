/*
 * sites.h: the request sites that stack samples have found, and which of them are wrappers.
 */
#ifndef CALM_FRONT_SITES_H
#define CALM_FRONT_SITES_H

#include "base/attr.h"

/*
 * Writes the known sites as one JSON object: for each module its path and its sites, by the offset
 * that debuggers use. Allocates nothing. 0 or a positive errno value.
 */
int sites_write_json(int fd);

#endif
