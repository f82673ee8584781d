/*
 * step.h: the processor's trap flag: while it is set, SIGTRAP comes after each instruction of the
 * calling thread. x86-64.
 */
#ifndef CALM_TESTS_STEP_H
#define CALM_TESTS_STEP_H

#include <stdbool.h>

/* The stack pointer is moved past the red zone, which the compiler may be using. */
static inline void step(bool is_on)
{
    if (is_on)
        __asm__ volatile("leaq -128(%%rsp), %%rsp\n\tpushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n\t"
                         "leaq 128(%%rsp), %%rsp" ::
                             : "memory", "cc");
    else
        __asm__ volatile("leaq -128(%%rsp), %%rsp\n\tpushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq\n\t"
                         "leaq 128(%%rsp), %%rsp" ::
                             : "memory", "cc");
}

#endif
