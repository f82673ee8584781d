/*
 * live.h: live blocks of many sizes, each signed, that a thread exchanges one by one.
 *
 * A table can be checked, used and emptied by another thread when its own has gone, at whatever
 * instruction: a block is in the table only while it is whole, and at most one is nowhere.
 */
#ifndef TESTS_ENVIRONMENT_LIVE_H
#define TESTS_ENVIRONMENT_LIVE_H

#include <stdbool.h>
#include <stddef.h>

enum { LIVE_MAX = 200, LIVE_WORKERS_MAX = 16 };

struct live {
    void *volatile blocks[LIVE_MAX];
    volatile size_t sizes[LIVE_MAX];
    unsigned long seed;
};

/* The calling thread is in the middle of malloc or free; for signal handlers. */
extern _Thread_local volatile bool live_is_inside;

/* Frees a block and allocates another, of 1 to `size_max` bytes, most of them small. */
void live_step(struct live *live, size_t size_max);

/* Sees that every block is as it was written. */
void live_check(const struct live *live);

/* Checks and frees all. */
void live_end(struct live *live);

/* Starts `count` threads that step with tables of their own until live_workers_end() is called,
 * which checks and frees all. Once. */
void live_workers_start(unsigned count, size_t size_max);
void live_workers_end(void);

#endif
