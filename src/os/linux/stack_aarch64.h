/*
 * stack_aarch64.h: what a stack walk needs to know of the processor. Register numbers are the
 * tables': DWARF for the Arm 64-bit Architecture, section 4.1.
 */
#ifndef CALM_OS_LINUX_STACK_AARCH64_H
#define CALM_OS_LINUX_STACK_AARCH64_H

#include "base/attr.h"

enum {
    STACK_REGISTERS = 33,
    STACK_FP = 29,
    STACK_SP = 31,
    STACK_PC = 32,         /* holds the interrupted address after a signal */
    STACK_RED_ZONE = 0,    /* bytes below the stack pointer that a leaf function may use */
    STACK_FP_KNOWS_SP = 0, /* the frame record may lie anywhere in the frame */
    STACK_HAS_SIGNED_RETURNS = 1,
    STACK_CALLS_PUSH = 0, /* a call leaves its return address in a register */
};

/* Stores the callee-saved registers, and returns the address where they had these values. */
ALWAYS_INLINE uintptr_t stack_seed(uint64_t *registers, uint64_t *known)
{
    uintptr_t pc, sp;
    __asm__ volatile("stp x19, x20, [%[to], #152]\n\t"
                     "stp x21, x22, [%[to], #168]\n\t"
                     "stp x23, x24, [%[to], #184]\n\t"
                     "stp x25, x26, [%[to], #200]\n\t"
                     "stp x27, x28, [%[to], #216]\n\t"
                     "mov %[sp], sp\n\t"
                     "str x29, [%[to], #232]\n\t"
                     "str %[sp], [%[to], #248]\n\t"
                     "adr %[pc], ."
                     : [pc] "=&r"(pc), [sp] "=&r"(sp)
                     : [to] "r"(registers)
                     : "memory");
    *known = 0x7ffu << 19 | 1u << STACK_SP;
    return pc;
}

/* mov x8, #139; svc #0: the return from a signal handler, as the kernel writes it. */
enum { STACK_SIGRETURN_BYTES = 8 };
#define STACK_SIGRETURN "\x68\x11\x80\xd2\x01\x00\x00\xd4"

/* Where the kernel saves each register of the interrupted function: bytes above the stack pointer
 * of the handler's return, which points to a struct rt_sigframe: 128 bytes of siginfo, then a
 * struct ucontext with x0 to x30, sp and pc, in this order. */
static const uint16_t stack_saved_at[STACK_REGISTERS] = {
    312, 320, 328, 336, 344, 352, 360, 368, 376, 384, 392, 400, 408, 416, 424, 432, 440,
    448, 456, 464, 472, 480, 488, 496, 504, 512, 520, 528, 536, 544, 552, 560, 568,
};

#endif
