/*
 * stubs.h: a call from one of many addresses, so that each site of a recording is a site to the
 * allocator as well.
 */
#ifndef CALM_REPLAY_STUBS_H
#define CALM_REPLAY_STUBS_H

#include <stdint.h>

typedef void (*any_function)(void);

/* function(first, second), returning to an address that belongs to the site (modulo STUBS). */
void *stub_call(uint32_t site, uintptr_t first, uintptr_t second, any_function function);

#endif
