/*
 * cohorts.h: what each cohort holds, from the depots.
 */
#ifndef CALM_FRONT_COHORTS_H
#define CALM_FRONT_COHORTS_H

#include "base/text.h"
#include "calmalloc/calmalloc.h"

/* As calm_cohorts_read. */
size_t cohorts_read(struct calm_cohort *out, size_t capacity);

/* Adds `"by_cohort":[...]`, those that hold most first, at most COHORTS_SHOWN of them. */
enum { COHORTS_SHOWN = 64 };
void cohorts_add_json(struct text *text);

#endif
