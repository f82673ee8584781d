/*
 * stacks.h: the call stacks of samples, each once, with its counts.
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
    STACKS_SITES = 1024,      /* sites alone, of stacks without room                 */
    WEIGHT_BITS = 12,         /* fraction bits of a count of blocks                  */
    VOLUME_BITS = 4,          /* fraction bits of a count of bytes                   */
};

/* What a sample stands for. */
struct estimate {
    uint64_t weight; /* requests, with WEIGHT_BITS fraction bits */
    uint64_t volume; /* bytes, with VOLUME_BITS fraction bits     */
};

/* Bytes of the tables, and the call that gives them zeroed memory. Once. */
size_t stacks_bytes(void);
void stacks_start(void *memory);

/* Number of the row that takes a sample of a stack: the stack's own, its site's, or that of all
 * others. The caller becomes its user, which keeps the row's stack, until stacks_end() or
 * stacks_leave(). 1 <= depth <= PROFILE_DEPTH_MAX. Any thread. */
uint32_t stacks_enter(const uintptr_t *callers, size_t depth);

/* Adds a request to the row. */
void stacks_add(uint32_t stack, struct estimate estimate);

/* Adds the end of a request to the row, and ends the use. */
void stacks_end(uint32_t stack, struct estimate estimate);

/* Ends a use without a request. */
void stacks_leave(uint32_t stack);

/* Samples that went to another row than their stack's own. */
uint64_t stacks_cut(void);

extern const struct watch_fact stacks_facts[];

/* As profile_visit(). */
void stacks_visit(void (*visit)(const struct profile_stack *stack, void *context), void *context);

#endif
