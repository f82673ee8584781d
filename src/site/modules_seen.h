/*
 * modules_seen.h: the modules that samples came from, also those that were unloaded since.
 */
#ifndef CALM_SITE_MODULES_SEEN_H
#define CALM_SITE_MODULES_SEEN_H

#include "base/facts.h"
#include "os/modules.h"

/* Bytes that the table needs, zeroed, and the call that says where it is. Once. */
size_t modules_seen_bytes(void);
void modules_seen_start(void *memory);

/* Remembers the modules of a stack that the calling thread is in. Cost: a load and a comparison a
 * caller, but for pages of code that were not seen before. */
void modules_seen_note(const uintptr_t *callers, size_t depth);

void modules_seen_visit(void (*visit)(const struct os_module *module, void *context),
                        void *context);

extern const struct watch_fact modules_seen_facts[];

#endif
