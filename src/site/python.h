/*
 * python.h: finds the functions and lines of CPython, 3.9 to 3.13, that the calling thread is in.
 */
#ifndef CALM_SITE_PYTHON_H
#define CALM_SITE_PYTHON_H

#include "base/attr.h"

/* Bytes of the cache of places, and the call that gives it zeroed memory. Once. */
size_t python_bytes(void);
void python_start(void *memory);

/*
 * Where a stack of callers, innermost first, runs through an interpreter: replaces the
 * interpreter's frame and all outside it by the Python frames, as words of site/places.h, up to
 * `max` in all. Returns the new depth, or `depth` unchanged. Cost without an interpreter: a few
 * instructions a caller.
 */
size_t python_replace(uintptr_t *callers, size_t depth, size_t max);

#endif
