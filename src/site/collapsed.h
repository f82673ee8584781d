/*
 * collapsed.h: stacks as lines of text, what flame graph tools take: frames from the outermost to
 * the site, with semicolons between, a blank, live bytes.
 */
#ifndef CALM_SITE_COLLAPSED_H
#define CALM_SITE_COLLAPSED_H

#include "site/module_table.h"
#include "site/profile_out.h"
#include "site/profile_write.h"

void collapsed_write(struct profile_out *out, const struct profile_source *source,
                     const struct module_table *modules);

#endif
