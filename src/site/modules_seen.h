/*
 * modules_seen.h: the modules that samples came from, unloaded ones included.
 */
#ifndef CALM_SITE_MODULES_SEEN_H
#define CALM_SITE_MODULES_SEEN_H

#include "base/facts.h"
#include "os/modules.h"

/* Bytes of the table, and the call that gives it zeroed memory. Once. */
size_t modules_seen_bytes(void);
void modules_seen_start(void *memory);

/* Notes the modules of a stack that the calling thread is in. Cost: a load and a comparison a
 * caller, but for new pages of code. */
void modules_seen_note(const uintptr_t *callers, size_t depth);

void modules_seen_visit(void (*visit)(const struct os_module *module, void *context),
                        void *context);

extern const struct watch_fact modules_seen_facts[];

#endif
