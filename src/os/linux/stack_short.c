/*
 * stack_short.c: which rows fit in a word, and the table of the words.
 *
 * Owner: any thread; a slot is one word, written and read whole. Design: docs/design/stacks.md
 */
#include "os/linux/stack_short.h"

enum { WORD = sizeof(uint64_t) };

_Atomic uint64_t stack_shorts[1 << SHORT_SLOTS_LOG2];

/* Words below the CFA at which a register is saved, or 0. */
static unsigned saved_at(const struct stack_brief *row, unsigned number)
{
    for (unsigned i = 0; i < row->count; i++)
        if ((row->saves[i] & ((1u << STACK_SAVE_BITS) - 1)) == number)
            return row->saves[i] >> STACK_SAVE_BITS;
    return 0;
}

static bool is_short(uintptr_t pc, const struct stack_brief *row)
{
    bool is_by_known = row->cfa_register == STACK_SP || row->cfa_register == STACK_FP;
    if (!STACK_CALLS_PUSH || pc >> SHORT_ADDRESS_BITS != 0)
        return false;
    if (row->is_outermost)
        return true;
    return is_by_known && saved_at(row, row->returns) == 1 && row->cfa_value > 0 &&
           row->cfa_value % WORD == 0 && row->cfa_value / WORD < 1 << SHORT_CFA_BITS &&
           saved_at(row, STACK_FP) < 1u << SHORT_FP_BITS;
}

void short_keep(uintptr_t pc, const struct stack_brief *row)
{
    if (!is_short(pc, row))
        return;
    uint64_t mixed = short_mixed(pc), word = short_name(mixed);
    if (row->is_outermost)
        word |= (uint64_t)1 << SHORT_END_AT;
    else
        word |= (uint64_t)(row->cfa_register == STACK_FP) << SHORT_BY_FP_AT |
                (uint64_t)saved_at(row, STACK_FP) << SHORT_FP_AT |
                (uint64_t)row->cfa_value / WORD << SHORT_CFA_AT;
    store(&stack_shorts[mixed >> SHORT_REST_BITS], word, RELAXED);
}
