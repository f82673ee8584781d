/*
 * explore.h: runs a few threads in every order of their atomic operations, up to a number of
 * preemptions.
 *
 * The threads are stacks of one real thread. Before each atomic operation (shim/base/atomic.h) the
 * explorer decides who goes on; a switch away from a thread that could go on is a preemption. All
 * schedules with at most `preemptions_max` of them are run, one after the other, each from a fresh
 * start (context bounding: Musuvathi and Qadeer, 2007).
 *
 * Not covered by any model: reordering by the machine, as operations happen in one total order;
 * more preemptions than a case allows; a switch between two atomic operations.
 */
#ifndef CALM_MODEL_EXPLORE_H
#define CALM_MODEL_EXPLORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EXPLORE_THREADS_MAX = 4 };

struct explore_case {
    const char *name;
    unsigned preemptions_max;
    unsigned thread_count;
    void (*begin)(void); /* before each run: a fresh state  */
    void (*threads[EXPLORE_THREADS_MAX])(void);
    void (*end)(void); /* after each run: the invariants  */
};

/* Explores the case. Prints how many schedules there were; stops the program at the first that
 * fails. */
void explore(const struct explore_case *model);

/* From now on a thread calls `step` when it begins, and when it goes on after a point. */
void explore_each_step(void (*step)(void));

/* Stops with the sentence and the schedule that led there. */
_Noreturn void explore_fail(const char *sentence);

/* A place where another thread may go on; nothing outside of an exploration. */
void explore_point(void);

/* The running thread's index; 0 outside of an exploration. */
unsigned explore_self(void);

/* One of `count` ways to go on, of which all are explored. From a thread or its step. */
unsigned explore_pick(unsigned count);

/* The running thread never goes on. */
void explore_stop(void);

/* The running thread waits until explore_wake(channel). When all wait, the exploration fails:
 * nobody would wake them. */
void explore_sleep(const void *channel);
void explore_wake(const void *channel, uint32_t count);

/* As explore_sleep, but for a time that is over once nobody else can go on. */
void explore_doze(const void *channel);

#endif
