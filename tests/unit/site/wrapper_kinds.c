/*
 * wrapper_kinds.c: the wrappers of wrapper_kinds.h, compiled with KINDS as their table's name.
 */
#include "wrapper_kinds.h"

#include <alloca.h>
#include <string.h>

#define NOT_INLINE __attribute__((noinline, no_sanitize("address"), no_sanitize("thread")))

enum { CONSTANT_BYTES = 1536, LARGE_BYTES = 3 * 4096, ALIGN = 64 };

#pragma GCC diagnostic ignored "-Wvla" /* programs have such arrays */

/* What is on the stack is used. */
#define KEEP(room) __asm__ volatile("" : : "r"(room) : "memory")
#define SAYS(in) (*(in)->returns_to = __builtin_return_address(0))

NOT_INLINE static void by_alloca(const struct wrapper_input *in)
{
    SAYS(in);
    char *room = alloca(in->bytes);
    memcpy(room, in->input, in->bytes);
    KEEP(room);
    in->request(in->asked);
    KEEP(room);
}

NOT_INLINE static void by_array(const struct wrapper_input *in)
{
    SAYS(in);
    char room[in->bytes];
    memcpy(room, in->input, in->bytes);
    KEEP(room);
    in->request(in->asked);
    KEEP(room);
}

NOT_INLINE static void by_alignment(const struct wrapper_input *in)
{
    SAYS(in);
    __attribute__((aligned(ALIGN))) char room[CONSTANT_BYTES];
    memcpy(room, in->input, in->bytes);
    KEEP(room);
    in->request(in->asked);
    KEEP(room);
}

NOT_INLINE static void by_pages(const struct wrapper_input *in)
{
    SAYS(in);
    char room[LARGE_BYTES];
    memcpy(room, in->input, in->bytes);
    KEEP(room);
    in->request(in->asked);
    KEEP(room);
}

NOT_INLINE static void by_constant(const struct wrapper_input *in)
{
    SAYS(in);
    char room[CONSTANT_BYTES];
    memcpy(room, in->input, in->bytes);
    KEEP(room);
    in->request(in->asked);
    KEEP(room);
}

const wrapper_kind KINDS[] = {by_alloca, by_array, by_alignment, by_pages, by_constant, NULL};
