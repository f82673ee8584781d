/*
 * heap_v2.h: jemalloc's text format, for jeprof and the tools that read its files.
 */
#ifndef CALM_SITE_HEAP_V2_H
#define CALM_SITE_HEAP_V2_H

#include "site/profile_out.h"
#include "site/profile_write.h"

void heap_v2_write(struct profile_out *out, const struct profile_source *source);

#endif
