/*
 * stack_parts.h: what the parts of a walk know of each other.
 *
 *     stack.c         the walk: from a frame to its caller's
 *     stack_memory.c  which words of the stack may be read
 *     stack_tables.c  a module's tables, and a function's entry in them
 *     stack_bytes.h   reading them
 *     stack_cfi.c     what an entry says of one address: where the caller's registers are
 *     stack_rows.c    what was found so before
 *     stack_short.h   the commonest of that, in a word each
 *
 * Tables are trusted to be mapped, as the dynamic linker states, and for nothing else: every read
 * is within the module, every loop bounded, and a table that makes no sense is as good as none.
 */
#ifndef CALM_OS_LINUX_STACK_PARTS_H
#define CALM_OS_LINUX_STACK_PARTS_H

#include "base/attr.h"
#include "os/linux/stack_bytes.h"

#if defined(__x86_64__)
#include "os/linux/stack_x86_64.h"
#else
#include "os/linux/stack_aarch64.h"
#endif

/* A function's registers at one moment. */
struct stack_frame {
    uint64_t registers[STACK_REGISTERS];
    uint64_t known; /* a bit for each register whose value is known */
    uintptr_t pc;
    bool is_exact; /* pc is where the function stands, not where a call returns to */
};

ALWAYS_INLINE bool stack_knows(const struct stack_frame *frame, uint64_t number)
{
    return number < STACK_REGISTERS && (frame->known >> number & 1) != 0;
}

ALWAYS_INLINE void stack_set(struct stack_frame *frame, unsigned number, uint64_t value)
{
    frame->registers[number] = value;
    frame->known |= (uint64_t)1 << number;
}

/*
 * Words of one stack. It is the pages that follow each other without a gap from the one that holds
 * the stack pointer; each is asked about once in a walk. Guard pages and unmapped ones end it.
 */
struct stack_memory {
    uintptr_t low;         /* nothing below is read: those frames are gone */
    uintptr_t start, end;  /* pages known to be readable */
    unsigned pages_to_ask; /* what is left of the bound on kernel entries */
};

/* Starts a stack at this stack pointer; `is_live`: the thread is running on it, so it is there. */
void stack_memory_begin(struct stack_memory *memory, uintptr_t sp, bool is_live);
bool stack_memory_read(struct stack_memory *memory, uintptr_t address, uint64_t *out);
/* Whether the page at `address` can be read; a kernel entry. */
bool stack_memory_is_readable(uintptr_t address);

/* The entry of one function (an FDE with its CIE). Programs are addresses in the module. */
struct stack_entry {
    uintptr_t function;
    uintptr_t initial, initial_end;
    uintptr_t program, program_end;
    uint64_t code_unit;
    int64_t data_unit;
    uint64_t return_register;
    uint64_t index;   /* in the sorted table */
    uint8_t encoding; /* of addresses */
    bool is_signal_frame;
    bool has_more; /* a length and that many bytes come before the program */
};

bool stack_tables_of(uintptr_t pc, struct stack_tables *out);
bool stack_tables_find(const struct stack_tables *tables, uintptr_t pc, struct stack_entry *out);

/* A digest of all bytes that the rows of the entry `index` follow from, and that the entry is the
 * one of its addresses: its words in the sorted table and the next ones, itself, its CIE. False:
 * they are not written as linkers do, or long. */
bool stack_tables_digest(const struct stack_tables *tables, uint64_t index, uint64_t *out);

enum stack_rule {
    RULE_SAME,
    RULE_UNDEFINED,
    RULE_AT_OFFSET, /* in the word at CFA + value */
    RULE_IS_OFFSET, /* CFA + value */
    RULE_AT_EXPRESSION,
    RULE_IS_EXPRESSION, /* value: where it lies, from the module's start */
    RULE_IN_REGISTER,
};

/* Where the caller's registers are. CFA is the stack pointer's value after the return. */
struct stack_row {
    int32_t cfa_value; /* to be added to cfa_register, or where the expression lies */
    uint8_t cfa_register;
    bool is_cfa_expression;
    uint64_t ruled; /* a bit for each register that has had a rule; all others are the same */
    uint8_t rules[STACK_REGISTERS];
    int32_t values[STACK_REGISTERS];
};

bool stack_cfi_row(const struct stack_tables *tables, const struct stack_entry *entry, uintptr_t pc,
                   struct stack_row *out);

enum { STACK_SAVES_MAX = 12, STACK_SAVE_BITS = 5 };

/* A row of the common kind: the CFA is a register and a number, the return address and maybe other
 * registers are saved below it, the rest are the same; or there is no caller. */
struct stack_brief {
    int32_t cfa_value;
    uint8_t cfa_register;
    uint8_t returns; /* the register that has the return address */
    uint8_t count;   /* of saves */
    bool is_outermost;
    uint32_t saved;                  /* a bit for each register that is */
    uint16_t nearest, farthest;      /* words below the CFA where one is */
    uint16_t saves[STACK_SAVES_MAX]; /* how many words, and in the low bits which register */
};

struct stack_kept {
    struct stack_brief brief;
    uintptr_t header; /* 0: the row holds for ever; else the tables that it was found in */
    uint64_t index;   /* of its entry */
    uint64_t digest;
};

/* The row for `pc`, if it is kept; where `header` is not 0, stack_rows_is_still() must be asked
 * with what are pc's tables now. Any thread; a signal handler, whatever it interrupted. */
bool stack_rows_find(uintptr_t pc, struct stack_kept *out);
bool stack_rows_is_still(const struct stack_tables *tables, const struct stack_kept *kept);
void stack_rows_keep(const struct stack_tables *tables, const struct stack_entry *entry,
                     const struct stack_row *row, uintptr_t pc);

/* The value of the expression at `place` from the module's start; `pushed`: what it begins with, or
 * NULL. */
bool stack_cfi_evaluate(const struct stack_tables *tables, int32_t place,
                        const struct stack_frame *frame, struct stack_memory *memory,
                        const uint64_t *pushed, uint64_t *out);

/* An address in one of the encodings of LSB, "DWARF Exception Header Encoding". */
uintptr_t stack_bytes_address(struct stack_bytes *bytes, uint8_t encoding,
                              const struct stack_tables *tables);

#endif
