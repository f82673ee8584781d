/*
 * pooled.h: pools' blocks under the ordinary names.
 *
 * Called on slow paths only, before anything trusts the address: a pool may lie inside a block of
 * this heap.
 */
#ifndef CALM_CORE_POOLED_H
#define CALM_CORE_POOLED_H

#include "base/attr.h"

/* Frees a pool's block as from any thread; errors are reported. False: no pool's block. */
bool pooled_free(void *block);

/* *out: usable bytes of a pool's block; 0, reported: not live. False: no pool's block. */
bool pooled_usable(const void *block, const char *verb, size_t *out);

#endif
