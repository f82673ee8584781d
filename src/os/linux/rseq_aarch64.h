/*
 * rseq_aarch64.h: the sequences for aarch64.
 *
 * Contract as in rseq_x86_64.h. A push ends with a release: C1 of core/cache.c. The code after an
 * abort lies behind the sequence, in the same function: a branch by register cannot go there,
 * because the processor checks the targets of such branches, and the function's own tables serve
 * unwinders.
 */
#ifndef CALM_OS_LINUX_RSEQ_AARCH64_H
#define CALM_OS_LINUX_RSEQ_AARCH64_H

#include "os/rseq.h"

/* Label 9 is the descriptor: the sequence lies from 1 to 2. An abort goes to 4, as does a sequence
 * with nothing to do. */
#define RSEQ_BEGIN                                                                                 \
    ".pushsection __rseq_cs, \"aw?\"\n\t"                                                          \
    ".balign 32\n"                                                                                 \
    "9:\n\t"                                                                                       \
    ".long 0, 0\n\t"                                                                               \
    ".quad 1f, 2f - 1f, 4f\n\t"                                                                    \
    ".popsection\n\t"                                                                              \
    "adrp %[word], 9b\n\t"                                                                         \
    "add %[word], %[word], :lo12:9b\n\t"                                                           \
    "str %[word], [%[area], #8]\n"                                                                 \
    "1:\n\t"                                                                                       \
    "ldr %w[word], [%[area], #24]\n\t"                                                             \
    "lsl %[word], %[word], #6\n\t"

#define RSEQ_DONE                                                                                  \
    "2:\n\t"                                                                                       \
    "b 5f\n\t"                                                                                     \
    ".inst 0xd428bc00\n"                                                                           \
    "4:\n\t"                                                                                       \
    "b %l[failed]\n"                                                                               \
    "5:"

/* See rseq_x86_64.h. */
#define RSEQ_END __asm__ volatile("")

ALWAYS_INLINE void *rseq_pop(struct rseq_area *area, struct rseq_slot *slots, size_t offset)
{
    void *block;
    uintptr_t word, base, entry;
    __asm__ volatile goto(
        RSEQ_BEGIN "ldr %[base], [%[slots], %[word]]\n\t"
                   "add %[entry], %[base], %[offset]\n\t"
                   "ldr %w[word], [%[entry], #8]\n\t"
                   "ldr %[block], [%[base], %[word]]\n\t"
                   "cbz %[block], 4f\n\t"
                   "sub %w[word], %w[word], #8\n\t"
                   "str %w[word], [%[entry], #8]\n" RSEQ_DONE "\n\t"
                   "ldr %[base], [%[base], %[word]]\n\t"
                   "prfm pstl1keep, [%[base]]"
        : [block] "=&r"(block), [word] "=&r"(word), [base] "=&r"(base), [entry] "=&r"(entry)
        : [area] "r"(area), [slots] "r"(slots), [offset] "r"(offset)
        : "memory"
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
    uintptr_t word, base, entry, limit;
    __asm__ volatile goto(
        RSEQ_BEGIN "ldr %[base], [%[slots], %[word]]\n\t"
                   "add %[entry], %[base], %[offset]\n\t"
                   "ldp %w[word], %w[limit], [%[entry], #8]\n\t"
                   "add %w[word], %w[word], #8\n\t"
                   "cmp %w[word], %w[limit]\n\t"
                   "b.hi 4f\n\t"
                   "str %[block], [%[base], %[word]]\n\t"
                   "add %[entry], %[entry], #8\n\t"
                   "stlr %w[word], [%[entry]]\n" RSEQ_DONE
        : [word] "=&r"(word), [base] "=&r"(base), [entry] "=&r"(entry), [limit] "=&r"(limit)
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
    uintptr_t word, base;
    __asm__ volatile goto(
        RSEQ_BEGIN "ldr %[base], [%[slots], %[word]]\n\t"
                   "cmp %[base], %[expected]\n\t"
                   "b.ne 4f\n\t"
                   "str %[desired], [%[slots], %[word]]\n" RSEQ_DONE
        : [word] "=&r"(word), [base] "=&r"(base)
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
#undef RSEQ_DONE

#endif
