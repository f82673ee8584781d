/*
 * calls.h: malloc and free of the watched heap, as the front makes them.
 */
#ifndef CALM_BENCH_CALLS_H
#define CALM_BENCH_CALLS_H

#include <stddef.h>

void *call_malloc(size_t bytes, const void *site);
void call_free(void *block);

/* Adds to a word that all cores share. */
void call_control(void);

#endif
