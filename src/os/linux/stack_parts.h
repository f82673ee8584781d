/*
 * stack_parts.h: the interfaces between the parts of a stack walk.
 *
 *     stack.c         the walk: from a frame to its caller's
 *     stack_memory.c  which words of the stack may be read
 *     stack_tables.c  a module's tables, and a function's entry in them
 *     stack_bytes.h   reading the tables
 *     stack_cfi.c     an entry's row for one address: where the caller's registers are
 *     stack_rows.c    cache of rows
 *     stack_short.h   cache of the commonest rows, one word each
 *
 * Tables are trusted only to be mapped, as the dynamic linker states: every read is within the
 * module, every loop is bounded, and a malformed table counts as no table.
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
    bool is_exact; /* pc is the current instruction, not a return address */
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
 * Words of one stack: the contiguous pages from the stack pointer's page on. Each page is checked
 * once per walk. Guard pages and unmapped pages end the stack.
 */
struct stack_memory {
    uintptr_t low;         /* nothing below is read: those frames have returned */
    uintptr_t start, end;  /* pages known to be readable */
    unsigned pages_to_ask; /* kernel entries left */
};

/* Begins a stack at this stack pointer; `is_live`: the thread runs on it, so its page is readable.
 */
void stack_memory_begin(struct stack_memory *memory, uintptr_t sp, bool is_live);
bool stack_memory_read(struct stack_memory *memory, uintptr_t address, uint64_t *out);
/* Whether the page at `address` is readable; a kernel entry. */
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
    bool has_more; /* a length and that many bytes precede the program */
};

bool stack_tables_of(uintptr_t pc, struct stack_tables *out);
bool stack_tables_find(const struct stack_tables *tables, uintptr_t pc, struct stack_entry *out);

/* Hashes all bytes that determine the rows of entry `index` and its range: its words in the
 * sorted table and the next ones, the entry, and its CIE. False: the
 * format is not the linkers' usual one, or a record is too long. */
bool stack_tables_digest(const struct stack_tables *tables, uint64_t index, uint64_t *out);

enum stack_rule {
    RULE_SAME,
    RULE_UNDEFINED,
    RULE_AT_OFFSET, /* in the word at CFA + value */
    RULE_IS_OFFSET, /* CFA + value */
    RULE_AT_EXPRESSION,
    RULE_IS_EXPRESSION, /* value: the expression's offset from the module's start */
    RULE_IN_REGISTER,
};

/* Where the caller's registers are. CFA is the stack pointer after the return. */
struct stack_row {
    int32_t cfa_value; /* to add to cfa_register, or the expression's offset */
    uint8_t cfa_register;
    bool is_cfa_expression;
    uint64_t ruled; /* a bit for each register that had a rule; others are unchanged */
    uint8_t rules[STACK_REGISTERS];
    int32_t values[STACK_REGISTERS];
};

bool stack_cfi_row(const struct stack_tables *tables, const struct stack_entry *entry, uintptr_t pc,
                   struct stack_row *out);

enum { STACK_SAVES_MAX = 12, STACK_SAVE_BITS = 5 };

/* A row of the common kind: the CFA is a register plus a number, the return address and maybe other
 * registers are saved below the CFA, the rest are unchanged; or there is no caller. */
struct stack_brief {
    int32_t cfa_value;
    uint8_t cfa_register;
    uint8_t returns; /* the register with the return address */
    uint8_t count;   /* of saves */
    bool is_outermost;
    uint32_t saved;                  /* a bit for each saved register */
    uint16_t nearest, farthest;      /* least and greatest words below the CFA of a save */
    uint16_t saves[STACK_SAVES_MAX]; /* words below the CFA; in the low bits, the register */
};

struct stack_kept {
    struct stack_brief brief;
    uintptr_t header; /* 0: the row is permanent; else its module's tables */
    uint64_t index;   /* of its entry */
    uint64_t digest;
};

/* Finds the cached row for `pc`. If `header` is not 0, the caller must check stack_rows_is_still()
 * with pc's current tables. Any thread; any signal handler. */
bool stack_rows_find(uintptr_t pc, struct stack_kept *out);
bool stack_rows_is_still(const struct stack_tables *tables, const struct stack_kept *kept);
void stack_rows_keep(const struct stack_tables *tables, const struct stack_entry *entry,
                     const struct stack_row *row, uintptr_t pc);

/* Evaluates the expression at offset `place` in the module; `pushed`: its initial stack value, or
 * NULL. */
bool stack_cfi_evaluate(const struct stack_tables *tables, int32_t place,
                        const struct stack_frame *frame, struct stack_memory *memory,
                        const uint64_t *pushed, uint64_t *out);

/* Reads an address in an encoding of LSB, "DWARF Exception Header Encoding". */
uintptr_t stack_bytes_address(struct stack_bytes *bytes, uint8_t encoding,
                              const struct stack_tables *tables);

#endif
