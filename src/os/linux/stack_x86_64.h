/*
 * stack_x86_64.h: what a stack walk needs to know of the processor. Register numbers are the
 * tables': System V psABI for AMD64, figure "DWARF Register Number Mapping".
 */
#ifndef CALM_OS_LINUX_STACK_X86_64_H
#define CALM_OS_LINUX_STACK_X86_64_H

#include "base/attr.h"

enum {
    STACK_REGISTERS = 17,
    STACK_FP = 6,
    STACK_SP = 7,
    STACK_PC = 16,         /* holds the interrupted address after a signal */
    STACK_RED_ZONE = 128,  /* bytes below the stack pointer that a leaf function may use */
    STACK_FP_KNOWS_SP = 1, /* the caller's stack pointer is just above the frame record */
    STACK_HAS_SIGNED_RETURNS = 0,
    STACK_CALLS_PUSH = 1, /* a call leaves its return address just below the stack pointer */
};

/* Stores the callee-saved registers, and returns the address where they had these values. */
ALWAYS_INLINE uintptr_t stack_seed(uint64_t *registers, uint64_t *known)
{
    uintptr_t pc;
    __asm__ volatile("movq %%rbx, 24(%[to])\n\t"
                     "movq %%rbp, 48(%[to])\n\t"
                     "movq %%rsp, 56(%[to])\n\t"
                     "movq %%r12, 96(%[to])\n\t"
                     "movq %%r13, 104(%[to])\n\t"
                     "movq %%r14, 112(%[to])\n\t"
                     "movq %%r15, 120(%[to])\n\t"
                     "leaq 1f(%%rip), %[pc]\n"
                     "1:"
                     : [pc] "=&r"(pc)
                     : [to] "r"(registers)
                     : "memory");
    *known = 1u << 3 | 1u << STACK_FP | 1u << STACK_SP | 0xfu << 12;
    return pc;
}

/* mov $15, %rax; syscall: the return from a signal handler, as C libraries write it. */
enum { STACK_SIGRETURN_BYTES = 9 };
#define STACK_SIGRETURN "\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05"

/* Where the kernel saves each register of the interrupted function, in the tables' order: bytes
 * above the stack pointer of the handler's return, which points to a struct ucontext. */
static const uint16_t stack_saved_at[STACK_REGISTERS] = {
    144, 136, 152, 128, 112, 104, 120, 160, 40, 48, 56, 64, 72, 80, 88, 96, 168,
};

#endif
