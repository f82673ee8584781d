/*
 * stack_fuzz.c: any bytes as a module's unwind tables: nothing is read out of their bounds, no
 * address of the program is read but those of its stack, and what comes out can be used.
 *
 * The input is an .eh_frame_hdr with what follows it, in a block of exactly its size, so that a
 * sanitizer sees a step too far. The addresses asked for are those that its first entries speak of.
 *
 * Seen to fail: a reader that does not look at the end, a record or an augmentation that ends
 * behind what holds it, a restore of what was never remembered, more to remember and more values of
 * an expression than there is room for, a register that there is not.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "os/linux/stack_parts.h"
#include "target.h"

/* Tables as a linker writes them: a header with two functions; a CIE, whose letters are zPLR and
 * then zRS; the programs hold one of each kind of instruction and of operation. */
#define HEADER(count, first, second)                                                               \
    "\x01\x1b\x03\x3b\x00\x00\x00\x00" count "\x00\x00\x00\x10\x00\x00\x00" first                  \
    "\x00\x00\x00\x80\x00\x00\x00" second "\x00\x00\x00"
#define INPUT(words) {words, sizeof words - 1}

const struct fuzz_input fuzz_corpus[] = {
    /* 0x1c: CIE of 20 bytes; 0x34: FDE for [0x10, 0x80), from 0x3c: 0x10 - 0x3c */
    INPUT(HEADER("\x02", "\x34", "\x34") "\x14\x00\x00\x00\x00\x00\x00\x00\x01zR\x00\x01\x78\x10"
                                         "\x01\x1b\x0c\x07\x08\x90\x01\x00\x00"
                                         "\x3a\x00\x00\x00\x1c\x00\x00\x00\xd4\xff\xff\xff"
                                         "\x70\x00\x00\x00\x00"
                                         "\x41\x0e\x10\x86\x02\x43\x0d\x06\x0a\x02\x10\x0c\x07\x08"
                                         "\x0b\x05\x03\x02\x06\x03\x07\x0c\x08\x0d\x09\x0e\x03\x44"
                                         "\x2e\x10\x11\x0f\x7c\x12\x07\x78\x13\x7e\x14\x03\x02\x15"
                                         "\x03\x7e\xc6"),
    /* a stub's CFA: rsp + 8 + ((rip & 15) >= 11) << 3; registers by expressions, one too deep */
    INPUT(
        HEADER("\x02", "\x38", "\x38") "\x18\x00\x00\x00\x00\x00\x00\x00\x01zPLR\x00\x01\x78\x10"
                                       "\x07\x1b\x00\x00\x00\x00\x1b\x1b\x0c\x07\x08"
                                       "\x3d\x00\x00\x00\x20\x00\x00\x00\xd0\xff\xff\xff"
                                       "\x70\x00\x00\x00\x04\x00\x00\x00\x00\x90\x01"
                                       "\x0f\x0b\x77\x08\x80\x00\x3f\x1a\x3b\x2a\x33\x24\x22\x42"
                                       "\x10\x06\x03\x76\x70\x06\x16\x03\x06\x12\x23\x08\x16\x1c"
                                       "\x31\x10\x00\x0a\x30\x31\x32\x33\x34\x35\x36\x37\x38\x39"),
    INPUT(HEADER("\x02", "\x30", "\x30") "\x10\x00\x00\x00\x00\x00\x00\x00\x03zRS\x00\x01\x78\x10"
                                         "\x01\x1c\x00\x00"
                                         "\x29\x00\x00\x00\x18\x00\x00\x00"
                                         "\xd8\xff\xff\xff\xff\xff\xff\xff\x70\x00\x00\x00"
                                         "\x00\x00\x00\x00\x00"
                                         "\x0f\x08\x77\xa0\x01\x06\x0a\x01\x02\x22\x90\x01\x03\x01"
                                         "\x00\x04\x01\x00\x00\x00"),
};
const size_t fuzz_corpus_count = sizeof fuzz_corpus / sizeof fuzz_corpus[0];

static void fail(const char *sentence)
{
    fprintf(stderr, "stack: %s\n", sentence);
    abort();
}

/* Evaluates all expressions of a row; their places must lie in the tables. */
static void evaluate(const struct stack_tables *tables, const struct stack_row *row)
{
    uint64_t words[64];
    struct stack_frame frame = {.known = 0x1ffff};
    struct stack_memory memory;
    stack_memory_begin(&memory, (uintptr_t)words, true);
    for (size_t i = 0; i < 64; i++)
        words[i] = (uintptr_t)&words[(i + 7) % 64];
    for (unsigned i = 0; i < STACK_REGISTERS; i++)
        frame.registers[i] = (uintptr_t)&words[i];
    uint64_t cfa = (uintptr_t)words, value;
    if (row->is_cfa_expression)
        stack_cfi_evaluate(tables, row->cfa_value, &frame, &memory, NULL, &cfa);
    else if (row->cfa_register >= STACK_REGISTERS)
        fail("a register for the CFA that there is not");
    for (unsigned i = 0; i < STACK_REGISTERS; i++) {
        if (row->rules[i] > RULE_IN_REGISTER)
            fail("a rule that there is not");
        if (row->rules[i] != RULE_SAME && (row->ruled >> i & 1) == 0)
            fail("a rule that no bit speaks of");
        if (row->rules[i] == RULE_AT_EXPRESSION || row->rules[i] == RULE_IS_EXPRESSION)
            stack_cfi_evaluate(tables, row->values[i], &frame, &memory, &cfa, &value);
    }
}

static void ask(const struct stack_tables *tables, uintptr_t pc)
{
    struct stack_entry entry;
    struct stack_row row;
    if (!stack_tables_find(tables, pc, &entry))
        return;
    if (entry.initial < tables->start || entry.initial > entry.initial_end ||
        entry.initial_end > tables->end || entry.program < tables->start ||
        entry.program > entry.program_end || entry.program_end > tables->end)
        fail("a program out of the tables");
    if (stack_cfi_row(tables, &entry, pc, &row))
        evaluate(tables, &row);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *block = malloc(size > 0 ? size : 1);
    if (size > 0)
        memcpy(block, data, size);
    uintptr_t start = (uintptr_t)block;
    struct stack_tables tables = {.start = start, .end = start + size, .header = start};
    for (size_t at = 12; at + 4 <= size && at < 44; at += 8) {
        int32_t function;
        memcpy(&function, block + at, sizeof function);
        for (uintptr_t i = 0; i < 16; i++)
            ask(&tables, start + (uintptr_t)(intptr_t)function + i * 7);
    }
    free(block);
    return 0;
}
