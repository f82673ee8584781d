/*
 * rseq_x86_64.h: the sequences for x86-64.
 *
 * Each begins by naming its description in the thread's area, and ends with one store. An abort
 * goes to a piece of code behind the signature that the C library registered.
 */
#ifndef CALM_OS_LINUX_RSEQ_X86_64_H
#define CALM_OS_LINUX_RSEQ_X86_64_H

#include "os/rseq.h"

/* Label 9 is the description: the sequence lies from 1 to 2, an abort goes to 4. */
#define RSEQ_BEGIN                                                                                 \
    ".pushsection __rseq_cs, \"aw?\"\n\t"                                                          \
    ".balign 32\n"                                                                                 \
    "9:\n\t"                                                                                       \
    ".long 0, 0\n\t"                                                                               \
    ".quad 1f, 2f - 1f, 4f\n\t"                                                                    \
    ".popsection\n\t"                                                                              \
    "leaq 9b(%%rip), %[word]\n\t"                                                                  \
    "movq %[word], 8(%[area])\n"                                                                   \
    "1:\n\t"                                                                                       \
    "movl 24(%[area]), %k[word]\n\t"                                                               \
    "shlq $6, %[word]\n\t"

/* An abort goes on at the label `failed`. */
#define RSEQ_ABORT                                                                                 \
    ".pushsection __rseq_failure, \"ax?\"\n\t"                                                     \
    ".byte 0x0f, 0xb9, 0x3d\n\t"                                                                   \
    ".long 0x53053053\n"                                                                           \
    "4:\n\t"                                                                                       \
    "jmp %l[failed]\n\t"                                                                           \
    ".popsection\n\t"

/* On both ways out of a branching asm with outputs: some compilers drop what they put there
 * themselves (gcc bug 113921), such as the NULL of a failure, but not this. */
#define RSEQ_END __asm__ volatile("")

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
                                     "2:\n\t" RSEQ_ABORT
                          : [block] "=&r"(block), [word] "=&r"(word), [base] "=&r"(base)
                          : [area] "r"(area), [slots] "r"(slots), [offset] "r"(offset)
                          : "cc", "memory"
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
                   "2:\n\t" RSEQ_ABORT
        : [word] "=&r"(word), [base] "=&r"(base)
        : [area] "r"(area), [slots] "r"(slots), [offset] "r"(offset), [block] "r"(block)
        : "cc", "memory"
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
                   "2:\n\t" RSEQ_ABORT
        : [word] "=&r"(word)
        : [area] "r"(area), [slots] "r"(slots), [expected] "r"(expected), [desired] "r"(desired)
        : "cc", "memory"
        : failed);
    return (int)(word / sizeof(struct rseq_slot));
failed:
    RSEQ_END;
    return -1;
}

#undef RSEQ_BEGIN
#undef RSEQ_END
#undef RSEQ_ABORT

#endif
