/*
 * cohorts.h: the blocks and bytes of each cohort, from the depots.
 */
#ifndef CALM_FRONT_COHORTS_H
#define CALM_FRONT_COHORTS_H

#include "base/text.h"
#include "calmalloc/calmalloc.h"

/* See calm_cohorts_read. */
size_t cohorts_read(struct calm_cohort *out, size_t capacity);

/* Adds `"by_cohort":[...]`, the heaviest cohorts first, at most COHORTS_SHOWN of them. */
enum { COHORTS_SHOWN = 64 };
void cohorts_add_json(struct text *text);

#endif
