/*
 * collapsed.h: writes stacks as lines of text for flame graph tools: frames from the outermost to
 * the site, separated by semicolons, then a blank and live bytes.
 */
#ifndef CALM_SITE_COLLAPSED_H
#define CALM_SITE_COLLAPSED_H

#include "site/module_table.h"
#include "site/profile_out.h"
#include "site/profile_write.h"

void collapsed_write(struct profile_out *out, const struct profile_source *source,
                     const struct module_table *modules);

#endif
