/*
 * places.h: places in a script, each as one word that a stack of callers can hold.
 *
 * The function's name and file are copied when they are first seen, so a word keeps its meaning
 * when the interpreter has ended. Nothing here takes a lock or waits.
 */
#ifndef CALM_SITE_PLACES_H
#define CALM_SITE_PLACES_H

#include "base/facts.h"

/* Characters of 1, 2 or 4 bytes each, by their numbers in Unicode. */
struct place_text {
    const void *units;
    uint32_t count;
    uint32_t unit_bytes;
};

/* A place; texts are UTF-8, and stay. */
struct place {
    const char *file; /* empty: nobody knows */
    const char *function;
    uint32_t line; /* 0: nobody knows */
};

/* Bytes that the tables need, zeroed, and the call that says where they are. Once. */
size_t places_bytes(void);
void places_start(void *memory);

/* The word of a place, never 0. All that find no room share a function. Any thread. */
uintptr_t place_enter(struct place_text file, struct place_text function, uint32_t line);

/* No address of code has the highest bit. */
ALWAYS_INLINE bool place_is(uintptr_t word)
{
    return word >> 63 != 0;
}

struct place place_of(uintptr_t word);

extern const struct watch_fact places_facts[];

#endif
