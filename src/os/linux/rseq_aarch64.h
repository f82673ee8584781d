/*
 * rseq_aarch64.h: the sequences for aarch64.
 *
 * As rseq_x86_64.h. A push ends with a release: C1 of core/cache.c.
 */
#ifndef CALM_OS_LINUX_RSEQ_AARCH64_H
#define CALM_OS_LINUX_RSEQ_AARCH64_H

#include "os/rseq.h"

/* Label 9 is the description: the sequence lies from 1 to 2, an abort goes to 4. */
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

/* What runs after an abort; then as if the sequence had found nothing to do. */
#define RSEQ_ABORT(code)                                                                           \
    ".pushsection __rseq_failure, \"ax?\"\n\t"                                                     \
    ".inst 0xd428bc00\n"                                                                           \
    "4:\n\t" code "b 3b\n\t"                                                                       \
    ".popsection\n\t"

ALWAYS_INLINE void *rseq_pop(struct rseq_area *area, struct rseq_slot *slots, size_t offset)
{
    void *block;
    uintptr_t word, base, entry;
    __asm__ volatile(
        RSEQ_BEGIN "ldr %[base], [%[slots], %[word]]\n\t"
                   "add %[entry], %[base], %[offset]\n\t"
                   "ldr %w[word], [%[entry], #8]\n\t"
                   "ldr %[block], [%[base], %[word]]\n\t"
                   "cbz %[block], 3f\n\t"
                   "sub %w[word], %w[word], #8\n\t"
                   "str %w[word], [%[entry], #8]\n"
                   "2:\n"
                   "3:\n\t" RSEQ_ABORT("mov %[block], xzr\n\t")
        : [block] "=&r"(block), [word] "=&r"(word), [base] "=&r"(base), [entry] "=&r"(entry)
        : [area] "r"(area), [slots] "r"(slots), [offset] "r"(offset)
        : "memory");
    return block;
}

ALWAYS_INLINE bool rseq_push(struct rseq_area *area, struct rseq_slot *slots, size_t offset,
                             void *block)
{
    uintptr_t word, base, entry, limit;
    uint32_t is_done = 0;
    __asm__ volatile(
        RSEQ_BEGIN "ldr %[base], [%[slots], %[word]]\n\t"
                   "add %[entry], %[base], %[offset]\n\t"
                   "ldp %w[word], %w[limit], [%[entry], #8]\n\t"
                   "add %w[word], %w[word], #8\n\t"
                   "cmp %w[word], %w[limit]\n\t"
                   "b.hi 3f\n\t"
                   "str %[block], [%[base], %[word]]\n\t"
                   "add %[entry], %[entry], #8\n\t"
                   "stlr %w[word], [%[entry]]\n"
                   "2:\n\t"
                   "mov %w[is_done], #1\n"
                   "3:\n\t" RSEQ_ABORT("")
        : [word] "=&r"(word), [base] "=&r"(base), [entry] "=&r"(entry), [limit] "=&r"(limit),
          [is_done] "+&r"(is_done)
        : [area] "r"(area), [slots] "r"(slots), [offset] "r"(offset), [block] "r"(block)
        : "cc", "memory");
    return is_done;
}

ALWAYS_INLINE int rseq_swap(struct rseq_area *area, struct rseq_slot *slots, void *expected,
                            void *desired)
{
    uintptr_t word, base;
    int core = -1;
    __asm__ volatile(
        RSEQ_BEGIN "ldr %[base], [%[slots], %[word]]\n\t"
                   "cmp %[base], %[expected]\n\t"
                   "b.ne 3f\n\t"
                   "str %[desired], [%[slots], %[word]]\n"
                   "2:\n\t"
                   "lsr %[word], %[word], #6\n\t"
                   "mov %w[core], %w[word]\n"
                   "3:\n\t" RSEQ_ABORT("")
        : [word] "=&r"(word), [base] "=&r"(base), [core] "+&r"(core)
        : [area] "r"(area), [slots] "r"(slots), [expected] "r"(expected), [desired] "r"(desired)
        : "cc", "memory");
    return core;
}

#undef RSEQ_BEGIN
#undef RSEQ_ABORT

#endif
