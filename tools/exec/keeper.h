/*
 * keeper.h: a thread that keeps blocks for a while after their tasks and then frees them, as
 * another core would.
 */
#ifndef CALM_EXEC_KEEPER_H
#define CALM_EXEC_KEEPER_H

#include <calmalloc/exec.h>

/* A block to keep; lives until keeper_stop(). */
struct kept {
    void *block;
    uint64_t hold_ns;  /* how long                               */
    uint64_t freed_ns; /* when it was freed; 0: it was not taken */
    uint64_t due_ns;   /* the keeper's                           */
    struct kept *next;
};

uint64_t keeper_now_ns(void);

void keeper_start(calm_exec *exec);

/* Hands a block over. Any thread. */
void keeper_keep(struct kept *kept, uint64_t now_ns);

/* Frees what it still has, and ends the thread. */
void keeper_stop(void);

#endif
