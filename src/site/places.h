/*
 * places.h: places in scripts, each as one word that fits into a stack of callers.
 *
 * The function's name and file are copied when first seen, so a word keeps its meaning after the
 * interpreter has ended. Nothing here takes a lock or waits.
 */
#ifndef CALM_SITE_PLACES_H
#define CALM_SITE_PLACES_H

#include "base/facts.h"

/* Unicode code points of 1, 2 or 4 bytes each. */
struct place_text {
    const void *units;
    uint32_t count;
    uint32_t unit_bytes;
};

/* A place. Its texts are UTF-8 and stay valid. */
struct place {
    const char *file; /* empty: unknown */
    const char *function;
    uint32_t line; /* 0: unknown */
};

/* Bytes of the tables, and the call that gives them zeroed memory. Once. */
size_t places_bytes(void);
void places_start(void *memory);

/* Word of a place, never 0. Functions without room share one. Any thread. */
uintptr_t place_enter(struct place_text file, struct place_text function, uint32_t line);

/* No code address has the highest bit. */
ALWAYS_INLINE bool place_is(uintptr_t word)
{
    return word >> 63 != 0;
}

struct place place_of(uintptr_t word);

extern const struct watch_fact places_facts[];

#endif
