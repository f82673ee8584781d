/*
 * wrapper_kinds.h: wrappers that copy their input to the stack, compiled in several ways.
 *
 * Each calls `request` and does something afterwards. `input`: what they copy, `bytes` of it.
 */
#ifndef CALM_TESTS_WRAPPER_KINDS_H
#define CALM_TESTS_WRAPPER_KINDS_H

#include <stddef.h>

struct wrapper_input {
    void (*request)(size_t);
    size_t asked;
    const void *input;
    size_t bytes;
    const void **returns_to; /* where the wrapper says who called it */
};

typedef void (*wrapper_kind)(const struct wrapper_input *);

/* With alloca(), an array of variable size, an array that is aligned beyond the stack, a frame of
 * several pages, and one of a constant size; ended by NULL. */
extern const wrapper_kind wrapper_kinds_pointers[]; /* -fno-omit-frame-pointer */
extern const wrapper_kind wrapper_kinds_omitted[];  /* -fomit-frame-pointer */
extern const wrapper_kind wrapper_kinds_plain[];    /* -O0 */

#endif
