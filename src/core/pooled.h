/*
 * pooled.h: blocks of pools under the ordinary names.
 *
 * Asked on slow paths only, before anything is believed of the address: a pool may lie inside a
 * block of this heap.
 */
#ifndef CALM_CORE_POOLED_H
#define CALM_CORE_POOLED_H

#include "base/attr.h"

/* Frees a pool's block, as from any thread; what is wrong with it is reported. False: no pool's. */
bool pooled_free(void *block);

/* The bytes of a pool's block that may be used; 0, reported, for what is no live block. False: no
 * pool's. */
bool pooled_usable(const void *block, const char *verb, size_t *out);

#endif
