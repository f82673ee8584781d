/*
 * stack_short.h: the commonest rows, a word each: the CFA is the stack or the frame pointer and a
 * number, the return address lies just below it, and the frame pointer is the same or saved below.
 *
 * For steps of a walk that needs no other register, with x86-64's frames, and of modules that
 * cannot go (stack_rows.c says which). A word names its address wholly: the index is one part of a
 * product that no other address has, the rest of it is in the word. So a load is all there is to
 * it: what it says holds for ever, whoever writes.
 */
#ifndef CALM_OS_LINUX_STACK_SHORT_H
#define CALM_OS_LINUX_STACK_SHORT_H

#include "base/atomic.h"
#include "os/linux/stack_parts.h"

enum {
    SHORT_SLOTS_LOG2 = 13,
    SHORT_ADDRESS_BITS = 47,
    SHORT_REST_BITS = SHORT_ADDRESS_BITS - SHORT_SLOTS_LOG2,
    SHORT_IS_ROW_AT = SHORT_REST_BITS, /* else the slot is empty                               */
    SHORT_BY_FP_AT,                    /* the CFA is found by the frame pointer                */
    SHORT_END_AT,                      /* there is no caller                                   */
    SHORT_FP_AT,                       /* words below the CFA where the frame pointer is, or 0 */
    SHORT_FP_BITS = 10,
    SHORT_CFA_AT = SHORT_FP_AT + SHORT_FP_BITS, /* words from the register to the CFA          */
    SHORT_CFA_BITS = 64 - SHORT_CFA_AT,
};

extern HIDDEN _Atomic uint64_t stack_shorts[1 << SHORT_SLOTS_LOG2];

/* An odd factor: no two addresses have the same product. */
ALWAYS_INLINE uint64_t short_mixed(uintptr_t pc)
{
    return pc * 0x9E3779B97F4A7C15 & (((uint64_t)1 << SHORT_ADDRESS_BITS) - 1);
}

#define SHORT_NAME_MASK (((uint64_t)2 << SHORT_IS_ROW_AT) - 1)

/* What is in the word of an address beside its row. */
ALWAYS_INLINE uint64_t short_name(uint64_t mixed)
{
    uint64_t is_row = (uint64_t)1 << SHORT_IS_ROW_AT;
    return (mixed & (is_row - 1)) | is_row;
}

/* The row of an address, or 0. */
ALWAYS_INLINE uint64_t short_find(uintptr_t pc)
{
    uint64_t mixed = short_mixed(pc);
    uint64_t row = load(&stack_shorts[mixed >> SHORT_REST_BITS], RELAXED);
    return likely(((row ^ short_name(mixed)) & SHORT_NAME_MASK) == 0) ? row : 0;
}

ALWAYS_INLINE bool short_is_by_fp(uint64_t row)
{
    return (row >> SHORT_BY_FP_AT & 1) != 0;
}

ALWAYS_INLINE bool short_is_end(uint64_t row)
{
    return (row >> SHORT_END_AT & 1) != 0;
}

/* How far below the CFA the frame pointer is saved; 0: it is the same. */
ALWAYS_INLINE uintptr_t short_fp_bytes(uint64_t row)
{
    return (row >> SHORT_FP_AT & ((1u << SHORT_FP_BITS) - 1)) * sizeof(uint64_t);
}

/* From the register to the CFA; 0 where there is no row, or no caller. */
ALWAYS_INLINE uintptr_t short_cfa_bytes(uint64_t row)
{
    return (row >> SHORT_CFA_AT) * sizeof(uint64_t);
}

/* Keeps a row of a module that cannot go, if it is of that kind. */
void short_keep(uintptr_t pc, const struct stack_brief *row);

#endif
