/*
 * rseq_x86_64.h: the sequences for x86-64.
 *
 * Each sequence begins by storing its descriptor in the thread's area, and ends with one store. An
 * abort goes to `calm_rseq_aborted`, behind the signature that the C library registered. That code
 * finds the descriptor in r11, and in the descriptor, behind the kernel's fields, the address to
 * continue at.
 *
 * To unwinders, `calm_rseq_aborted` is a frame interrupted there: a profiler's signal aborts the
 * sequence that it interrupts, so profilers find such threads at this address.
 */
#ifndef CALM_OS_LINUX_RSEQ_X86_64_H
#define CALM_OS_LINUX_RSEQ_X86_64_H

#include "os/rseq.h"

/* Every object file has a copy, and the linker binds all references to the first. Link-time
 * optimisation may put several into one file, hence .ifndef. */
__asm__(".ifndef calm_rseq_aborted\n\t"
        ".pushsection __rseq_failure, \"ax\", @progbits\n\t"
        ".weak calm_rseq_aborted\n\t"
        ".hidden calm_rseq_aborted\n\t"
        ".type calm_rseq_aborted, @function\n\t"
        ".cfi_startproc\n\t"
        ".cfi_signal_frame\n\t"
        ".cfi_def_cfa rsp, 0\n\t"
        ".cfi_escape 0x10, 16, 2, 0x7b, 32\n\t" /* rip is at 32(%r11) */
        ".byte 0x0f, 0xb9, 0x3d\n\t"
        ".long 0x53053053\n"
        "calm_rseq_aborted:\n\t"
        "notrack jmp *32(%r11)\n\t"
        ".cfi_endproc\n\t"
        ".size calm_rseq_aborted, . - calm_rseq_aborted\n\t"
        ".popsection\n\t"
        ".endif");

/* Label 9 is the descriptor: the sequence lies from 1 to 2. After an abort, and if there is nothing
 * to do, the program continues at the label `failed`. */
#define RSEQ_BEGIN                                                                                 \
    ".pushsection __rseq_cs, \"aw?\"\n\t"                                                          \
    ".balign 32\n"                                                                                 \
    "9:\n\t"                                                                                       \
    ".long 0, 0\n\t"                                                                               \
    ".quad 1f, 2f - 1f, calm_rseq_aborted\n\t"                                                     \
    ".quad %l[failed], 0, 0, 0\n\t"                                                                \
    ".popsection\n\t"                                                                              \
    "leaq 9b(%%rip), %%r11\n\t"                                                                    \
    "movq %%r11, 8(%[area])\n"                                                                     \
    "1:\n\t"                                                                                       \
    "movl 24(%[area]), %k[word]\n\t"                                                               \
    "shlq $6, %[word]\n\t"

/* Placed on both ways out of a branching asm with outputs: some compilers drop their own code there
 * (gcc bug 113921), such as the NULL of a failure, but not this. */
#define RSEQ_END __asm__ volatile("")

/* After its last store, prefetches the line of the new top block. That block may be another
 * thread's by then, or none: a prefetch is harmless. */
ALWAYS_INLINE void *rseq_pop(struct rseq_area *area, struct rseq_slot *slots, size_t offset)
{
    void *block;
    uintptr_t word, base;
    __asm__ volatile goto(RSEQ_BEGIN "movq (%[slots], %[word]), %[base]\n\t"
                                     "movl 8(%[base], %[offset]), %k[word]\n\t"
                                     "movq (%[base], %[word]), %[block]\n\t"
                                     "testq %[block], %[block]\n\t"
                                     "jz %l[failed]\n\t"
                                     "subl $8, %k[word]\n\t"
                                     "movl %k[word], 8(%[base], %[offset])\n"
                                     "2:\n\t"
                                     "movq (%[base], %[word]), %[base]\n\t"
                                     "prefetchw (%[base])"
                          : [block] "=&r"(block), [word] "=&r"(word), [base] "=&r"(base)
                          : [area] "r"(area), [slots] "r"(slots), [offset] "r"(offset)
                          : "r11", "cc", "memory"
                          : failed);
    RSEQ_END;
    if (block == NULL)
        __builtin_unreachable();
    return block;
failed:
    RSEQ_END;
    return NULL;
}

ALWAYS_INLINE bool rseq_push(struct rseq_area *area, struct rseq_slot *slots, size_t offset,
                             void *block)
{
    uintptr_t word, base;
    __asm__ volatile goto(
        RSEQ_BEGIN "movq (%[slots], %[word]), %[base]\n\t"
                   "movl 8(%[base], %[offset]), %k[word]\n\t"
                   "addl $8, %k[word]\n\t"
                   "cmpl 12(%[base], %[offset]), %k[word]\n\t"
                   "ja %l[failed]\n\t"
                   "movq %[block], (%[base], %[word])\n\t"
                   "movl %k[word], 8(%[base], %[offset])\n"
                   "2:"
        : [word] "=&r"(word), [base] "=&r"(base)
        : [area] "r"(area), [slots] "r"(slots), [offset] "r"(offset), [block] "r"(block)
        : "r11", "cc", "memory"
        : failed);
    return true;
failed:
    RSEQ_END;
    return false;
}

ALWAYS_INLINE int rseq_swap(struct rseq_area *area, struct rseq_slot *slots, void *expected,
                            void *desired)
{
    uintptr_t word;
    __asm__ volatile goto(
        RSEQ_BEGIN "cmpq %[expected], (%[slots], %[word])\n\t"
                   "jne %l[failed]\n\t"
                   "movq %[desired], (%[slots], %[word])\n"
                   "2:"
        : [word] "=&r"(word)
        : [area] "r"(area), [slots] "r"(slots), [expected] "r"(expected), [desired] "r"(desired)
        : "r11", "cc", "memory"
        : failed);
    return (int)(word / sizeof(struct rseq_slot));
failed:
    RSEQ_END;
    return -1;
}

#undef RSEQ_BEGIN
#undef RSEQ_END

#endif
