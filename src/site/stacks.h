/*
 * stacks.h: the call stacks that samples were taken at, each once, and what was counted for it.
 *
 * The tables are of fixed size, in memory that the caller provides once. Nothing here takes a lock
 * or waits; docs/protocols/profile.md has the words that threads share.
 */
#ifndef CALM_SITE_STACKS_H
#define CALM_SITE_STACKS_H

#include "base/facts.h"
#include "site/profile.h"

enum {
    STACKS_LIMIT = 16 * 1024, /* different stacks at a time                          */
    STACKS_SITES = 1024,      /* sites alone, of stacks for which there was no room  */
    WEIGHT_BITS = 12,         /* behind the point, of a count of blocks              */
    VOLUME_BITS = 4,          /* of a count of bytes                                 */
};

/* What a sample stands for. */
struct estimate {
    uint64_t weight; /* requests, in fixed point with WEIGHT_BITS */
    uint64_t volume; /* bytes, with VOLUME_BITS                   */
};

/* Bytes that the tables need, zeroed, and the call that says where they are. Once. */
size_t stacks_bytes(void);
void stacks_start(void *memory);

/* The number of the row that takes a sample of a stack: the stack's own, or its site's, or that of
 * all others. The caller is its user, so that it stays what it is, until stacks_end() or
 * stacks_leave(). 1 <= depth <= PROFILE_DEPTH_MAX. Any thread. */
uint32_t stacks_enter(const uintptr_t *callers, size_t depth);

/* Adds a request to the row. */
void stacks_add(uint32_t stack, struct estimate estimate);

/* The end of that request, and of the use. */
void stacks_end(uint32_t stack, struct estimate estimate);

/* The end of a use that had no request. */
void stacks_leave(uint32_t stack);

/* How many samples went to another row than their stack's own. */
uint64_t stacks_cut(void);

extern const struct watch_fact stacks_facts[];

/* As profile_visit. */
void stacks_visit(void (*visit)(const struct profile_stack *stack, void *context), void *context);

#endif
