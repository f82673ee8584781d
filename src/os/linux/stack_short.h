/*
 * stack_short.h: the commonest rows, a word each: the CFA is the stack or frame pointer plus a
 * number, the return address lies just below the CFA, and the frame pointer is unchanged or saved
 * below.
 *
 * For walk steps that need no other register, on x86-64, in modules that are never unloaded
 * (stack_rows.c says which). A word identifies its address fully: the index is one part of a
 * product that is unique to the address, and the word has the other part. So a lookup is one load,
 * and the row is valid for ever, whichever thread writes.
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
    SHORT_BY_FP_AT,                    /* the frame pointer gives the CFA                      */
    SHORT_END_AT,                      /* there is no caller                                   */
    SHORT_FP_AT,                       /* words below the CFA of the saved frame pointer, or 0 */
    SHORT_FP_BITS = 10,
    SHORT_CFA_AT = SHORT_FP_AT + SHORT_FP_BITS, /* words from the register to the CFA */
    SHORT_CFA_BITS = 64 - SHORT_CFA_AT,
};

extern HIDDEN _Atomic uint64_t stack_shorts[1 << SHORT_SLOTS_LOG2];

/* An odd factor: every address has a different product. */
ALWAYS_INLINE uint64_t short_mixed(uintptr_t pc)
{
    return pc * 0x9E3779B97F4A7C15 & (((uint64_t)1 << SHORT_ADDRESS_BITS) - 1);
}

#define SHORT_NAME_MASK (((uint64_t)2 << SHORT_IS_ROW_AT) - 1)

/* The part of a word that identifies its address. */
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

/* Bytes below the CFA at which the frame pointer is saved; 0: unchanged. */
ALWAYS_INLINE uintptr_t short_fp_bytes(uint64_t row)
{
    return (row >> SHORT_FP_AT & ((1u << SHORT_FP_BITS) - 1)) * sizeof(uint64_t);
}

/* Bytes from the register to the CFA; 0 if there is no row, or no caller. */
ALWAYS_INLINE uintptr_t short_cfa_bytes(uint64_t row)
{
    return (row >> SHORT_CFA_AT) * sizeof(uint64_t);
}

/* Caches a row of a module that is never unloaded, if the row is short. */
void short_keep(uintptr_t pc, const struct stack_brief *row);

#endif
