/*
 * stepped.h: how many instructions one call takes: it is executed one at a time, with the
 * processor's trap flag, and a signal handler counts. x86-64 only.
 *
 * The count is that of the call and its return, the kernel's not included. A call is followed for
 * STEPS_MAX instructions at most: a count of STEPS_MAX says "at least". One thread counts at a
 * time; others run on.
 */
#ifndef CALM_BENCH_STEPPED_H
#define CALM_BENCH_STEPPED_H

#include "workload.h"

#include <signal.h>
#include <ucontext.h>

enum { STEPS_MAX = 2000000 };

static volatile uint64_t steps;
static uint64_t empty_steps;

#if defined(__x86_64__)
enum { TRAP_FLAG = 0x100 };

static inline void trap_on(void)
{
    __asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
}

static inline void trap_off(void)
{
    __asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc");
}

static void on_step(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info;
    if (++steps == STEPS_MAX)
        ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)TRAP_FLAG;
}
#else
static inline void trap_on(void)
{
    fail("counting instructions needs x86-64");
}

static inline void trap_off(void) {}

static void on_step(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info, (void)context;
}
#endif

static void *(*volatile call_malloc)(size_t) = malloc;
static void (*volatile call_free)(void *) = free;

static __attribute__((noinline)) void *empty_malloc(size_t bytes)
{
    __asm__ volatile("" : : "r"(bytes));
    return NULL;
}

static void *(*volatile call_empty)(size_t) = empty_malloc;

static __attribute__((noinline)) void *stepped_malloc(void *(*function)(size_t), size_t bytes)
{
    steps = 0;
    trap_on();
    void *block = function(bytes);
    trap_off();
    return block;
}

static __attribute__((noinline, unused)) void stepped_free(void *block)
{
    steps = 0;
    trap_on();
    call_free(block);
    trap_off();
}

/* The instructions of the call that was stepped last. */
static inline uint64_t stepped_count(void)
{
    return steps == STEPS_MAX ? steps : steps > empty_steps ? steps - empty_steps : 0;
}

/* Before the first count: what is counted of a function that does nothing. */
static inline void stepped_begin(void)
{
    struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
    sigaction(SIGTRAP, &action, NULL);
    stepped_malloc(call_empty, 0);
    empty_steps = steps - 1; /* an empty function is its return */
}

#endif
