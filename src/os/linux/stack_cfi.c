/*
 * stack_cfi.c: finds an entry's row for one address.
 *
 * An entry is a program that builds a table, one row for each address at which something changes.
 * The interpreter runs up to the row for the address and keeps no other. Sources: DWARF 5, sections
 * 6.4.2 and 6.4.3 (instructions) and 2.5 (expressions); LSB Core 5.0, 10.6 for the GNU ones; DWARF
 * for the Arm 64-bit Architecture for the state of signed returns, which is not needed: signatures
 * are always removed.
 */
#include "os/linux/stack_parts.h"

enum {
    STEPS_MAX = 16384,   /* of a function's program; longer ones are ignored */
    REMEMBERED_MAX = 2,  /* compilers use one */
    OPERATIONS_MAX = 64, /* of an expression */
    VALUES_MAX = 8,      /* on its stack */
};

struct run {
    const struct stack_tables *tables;
    const struct stack_entry *entry;
    struct stack_row *row;
    struct stack_row initial, remembered[REMEMBERED_MAX];
    unsigned remembered_count;
    unsigned steps;
    uintptr_t location;
    bool is_bad;
};

static int32_t narrow(struct run *run, int64_t value)
{
    if (value != (int32_t)value)
        run->is_bad = true;
    return (int32_t)value;
}

/* Ignores registers that the walk does not follow, such as vector registers. */
static void set_rule(struct run *run, uint64_t number, enum stack_rule rule, int64_t value)
{
    if (number >= STACK_REGISTERS)
        return;
    run->row->ruled |= (uint64_t)1 << number;
    run->row->rules[number] = (uint8_t)rule;
    run->row->values[number] = narrow(run, value);
}

static void restore_rule(struct run *run, uint64_t number)
{
    if (number < STACK_REGISTERS)
        set_rule(run, number, (enum stack_rule)run->initial.rules[number],
                 run->initial.values[number]);
}

static int64_t in_units(struct run *run, int64_t count)
{
    int64_t value;
    if (__builtin_mul_overflow(count, run->entry->data_unit, &value))
        run->is_bad = true;
    return value;
}

static void set_cfa(struct run *run, uint64_t number, int64_t value)
{
    if (number >= STACK_REGISTERS)
        run->is_bad = true;
    run->row->cfa_register = (uint8_t)number;
    run->row->cfa_value = narrow(run, value);
    run->row->is_cfa_expression = false;
}

/* Returns the offset of the expression that follows, and skips it. */
static int64_t expression(struct run *run, struct stack_bytes *bytes)
{
    int64_t place = (int64_t)(bytes->at - run->tables->start);
    stack_bytes_skip(bytes, stack_bytes_uleb(bytes));
    return place;
}

static void remember(struct run *run)
{
    if (run->remembered_count == REMEMBERED_MAX)
        run->is_bad = true;
    else
        run->remembered[run->remembered_count++] = *run->row;
}

static void restore_remembered(struct run *run)
{
    if (run->remembered_count == 0)
        run->is_bad = true;
    else
        *run->row = run->remembered[--run->remembered_count];
}

/* Instructions that define the CFA. False: another instruction. */
static bool step_cfa(struct run *run, uint64_t code, struct stack_bytes *bytes)
{
    struct stack_row *row = run->row;
    uint64_t number;
    switch (code) {
    case 0x0c: /* def_cfa */
        number = stack_bytes_uleb(bytes);
        set_cfa(run, number, (int64_t)stack_bytes_uleb(bytes));
        return true;
    case 0x12: /* def_cfa_sf */
        number = stack_bytes_uleb(bytes);
        set_cfa(run, number, in_units(run, stack_bytes_sleb(bytes)));
        return true;
    case 0x0d: /* def_cfa_register */
        set_cfa(run, stack_bytes_uleb(bytes), row->cfa_value);
        return true;
    case 0x0e: /* def_cfa_offset */
        set_cfa(run, row->cfa_register, (int64_t)stack_bytes_uleb(bytes));
        return true;
    case 0x13: /* def_cfa_offset_sf */
        set_cfa(run, row->cfa_register, in_units(run, stack_bytes_sleb(bytes)));
        return true;
    case 0x0f: /* def_cfa_expression */
        row->cfa_value = narrow(run, expression(run, bytes));
        row->is_cfa_expression = true;
        return true;
    default: return false;
    }
}

/* Instructions that define where a register is; each begins with the register's number. */
static bool step_register(struct run *run, uint64_t code, struct stack_bytes *bytes)
{
    bool is_ours = (code >= 0x05 && code <= 0x09) || code == 0x10 || code == 0x11 ||
                   (code >= 0x14 && code <= 0x16) || code == 0x2f;
    if (!is_ours)
        return false;
    uint64_t number = stack_bytes_uleb(bytes);
    int64_t value = 0;
    enum stack_rule rule = RULE_AT_OFFSET;
    switch (code) {
    case 0x05: value = in_units(run, (int64_t)stack_bytes_uleb(bytes)); break;
    case 0x06: restore_rule(run, number); return true;
    case 0x07: rule = RULE_UNDEFINED; break;
    case 0x08: rule = RULE_SAME; break;
    case 0x09:
        rule = RULE_IN_REGISTER;
        value = (int64_t)stack_bytes_uleb(bytes);
        break;
    case 0x10:
        rule = RULE_AT_EXPRESSION;
        value = expression(run, bytes);
        break;
    case 0x11: value = in_units(run, stack_bytes_sleb(bytes)); break;
    case 0x14:
        rule = RULE_IS_OFFSET;
        value = in_units(run, (int64_t)stack_bytes_uleb(bytes));
        break;
    case 0x15:
        rule = RULE_IS_OFFSET;
        value = in_units(run, stack_bytes_sleb(bytes));
        break;
    case 0x16:
        rule = RULE_IS_EXPRESSION;
        value = expression(run, bytes);
        break;
    default: /* GNU_negative_offset_extended */
        value = in_units(run, (int64_t)(0 - stack_bytes_uleb(bytes)));
        break;
    }
    set_rule(run, number, rule, value);
    return true;
}

static void step_other(struct run *run, uint64_t code, struct stack_bytes *bytes)
{
    switch (code) {
    case 0x00: break; /* nop */
    case 0x01:        /* set_loc */
        run->location = stack_bytes_address(bytes, run->entry->encoding, run->tables);
        break;
    case 0x02: /* advance_loc1, 2, 4 */
        run->location += stack_bytes_unsigned(bytes, 1) * run->entry->code_unit;
        break;
    case 0x03: run->location += stack_bytes_unsigned(bytes, 2) * run->entry->code_unit; break;
    case 0x04: run->location += stack_bytes_unsigned(bytes, 4) * run->entry->code_unit; break;
    case 0x0a: remember(run); break;
    case 0x0b: restore_remembered(run); break;
    case 0x2c: /* AARCH64_negate_ra_state, with and without the signature's address */
    case 0x2d:
        if (!STACK_HAS_SIGNED_RETURNS)
            run->is_bad = true;
        break;
    case 0x2e: stack_bytes_uleb(bytes); break; /* GNU_args_size */
    default: run->is_bad = true;
    }
}

/* Runs a program up to the last instruction that applies to `pc`. */
static void run_program(struct run *run, uintptr_t at, uintptr_t end, uintptr_t pc)
{
    struct stack_bytes bytes = stack_bytes_from(run->tables, at, end);
    while (bytes.at < bytes.end && !run->is_bad && run->location <= pc) {
        uint64_t code = stack_bytes_unsigned(&bytes, 1);
        uint64_t low = code & 0x3f;
        switch (code & 0xc0) {
        case 0x40: run->location += low * run->entry->code_unit; break;
        case 0x80:
            set_rule(run, low, RULE_AT_OFFSET, in_units(run, (int64_t)stack_bytes_uleb(&bytes)));
            break;
        case 0xc0: restore_rule(run, low); break;
        default:
            if (!step_cfa(run, code, &bytes) && !step_register(run, code, &bytes))
                step_other(run, code, &bytes);
        }
        if (++run->steps > STEPS_MAX)
            run->is_bad = true;
    }
    run->is_bad |= bytes.is_bad;
}

bool stack_cfi_row(const struct stack_tables *tables, const struct stack_entry *entry, uintptr_t pc,
                   struct stack_row *out)
{
    struct run run;
    run.tables = tables;
    run.entry = entry;
    run.row = out;
    run.remembered_count = run.steps = 0;
    run.location = entry->function;
    run.is_bad = false;
    *out = (struct stack_row){.cfa_register = STACK_REGISTERS};
    run.initial = *out;
    run_program(&run, entry->initial, entry->initial_end, UINTPTR_MAX);
    run.initial = *out;
    run.location = entry->function;
    run_program(&run, entry->program, entry->program_end, pc);
    return !run.is_bad && (out->is_cfa_expression || out->cfa_register < STACK_REGISTERS);
}

struct evaluation {
    const struct stack_frame *frame;
    struct stack_memory *memory;
    uint64_t values[VALUES_MAX];
    unsigned count;
    bool is_bad;
};

static void push(struct evaluation *evaluation, uint64_t value)
{
    if (evaluation->count == VALUES_MAX)
        evaluation->is_bad = true;
    else
        evaluation->values[evaluation->count++] = value;
}

static uint64_t pop(struct evaluation *evaluation)
{
    if (evaluation->count > 0)
        return evaluation->values[--evaluation->count];
    evaluation->is_bad = true;
    return 0;
}

static void push_register(struct evaluation *evaluation, uint64_t number, int64_t offset)
{
    if (stack_knows(evaluation->frame, number))
        push(evaluation, evaluation->frame->registers[number] + (uint64_t)offset);
    else
        evaluation->is_bad = true;
}

static void operate_on_two(struct evaluation *evaluation, uint64_t code)
{
    uint64_t b = pop(evaluation), a = pop(evaluation);
    int64_t left = (int64_t)a, right = (int64_t)b;
    switch (code) {
    case 0x16: /* swap */
        push(evaluation, b);
        push(evaluation, a);
        break;
    case 0x1a: push(evaluation, a & b); break;
    case 0x1c: push(evaluation, a - b); break;
    case 0x21: push(evaluation, a | b); break;
    case 0x22: push(evaluation, a + b); break;
    case 0x24: push(evaluation, b < 64 ? a << b : 0); break;
    case 0x25: push(evaluation, b < 64 ? a >> b : 0); break;
    case 0x29: push(evaluation, left == right); break;
    case 0x2a: push(evaluation, left >= right); break;
    case 0x2b: push(evaluation, left > right); break;
    case 0x2c: push(evaluation, left <= right); break;
    case 0x2d: push(evaluation, left < right); break;
    case 0x2e: push(evaluation, left != right); break;
    default: evaluation->is_bad = true;
    }
}

/* Operations with operands in the program, or with one value. */
static void operate(struct evaluation *evaluation, uint64_t code, struct stack_bytes *bytes)
{
    uint64_t value;
    switch (code) {
    case 0x06: /* deref */
        value = pop(evaluation);
        if (evaluation->is_bad || !stack_memory_read(evaluation->memory, value, &value))
            evaluation->is_bad = true;
        push(evaluation, value);
        break;
    case 0x08: push(evaluation, stack_bytes_unsigned(bytes, 1)); break;
    case 0x09: push(evaluation, (uint64_t)stack_bytes_signed(bytes, 1)); break;
    case 0x0a: push(evaluation, stack_bytes_unsigned(bytes, 2)); break;
    case 0x0b: push(evaluation, (uint64_t)stack_bytes_signed(bytes, 2)); break;
    case 0x0c: push(evaluation, stack_bytes_unsigned(bytes, 4)); break;
    case 0x0d: push(evaluation, (uint64_t)stack_bytes_signed(bytes, 4)); break;
    case 0x0e:
    case 0x0f: push(evaluation, stack_bytes_unsigned(bytes, 8)); break;
    case 0x10: push(evaluation, stack_bytes_uleb(bytes)); break;
    case 0x11: push(evaluation, (uint64_t)stack_bytes_sleb(bytes)); break;
    case 0x12: /* dup */
        value = pop(evaluation);
        push(evaluation, value);
        push(evaluation, value);
        break;
    case 0x13: pop(evaluation); break;
    case 0x23: /* plus_uconst */
        value = stack_bytes_uleb(bytes);
        push(evaluation, pop(evaluation) + value);
        break;
    case 0x92: /* bregx */
        value = stack_bytes_uleb(bytes);
        push_register(evaluation, value, stack_bytes_sleb(bytes));
        break;
    case 0x96: break; /* nop */
    default: operate_on_two(evaluation, code);
    }
}

bool stack_cfi_evaluate(const struct stack_tables *tables, int32_t place,
                        const struct stack_frame *frame, struct stack_memory *memory,
                        const uint64_t *pushed, uint64_t *out)
{
    struct stack_bytes bytes = stack_bytes_from(tables, tables->start + (uint32_t)place,
                                                tables->end);
    uint64_t length = stack_bytes_uleb(&bytes);
    if (bytes.is_bad || length > bytes.end - bytes.at)
        return false;
    bytes.end = bytes.at + length;
    struct evaluation evaluation = {.frame = frame, .memory = memory};
    if (pushed != NULL)
        push(&evaluation, *pushed);
    for (unsigned steps = 0; bytes.at < bytes.end; steps++) {
        uint64_t code = stack_bytes_unsigned(&bytes, 1);
        if (code >= 0x30 && code <= 0x4f) /* lit0 to lit31 */
            push(&evaluation, code - 0x30);
        else if (code >= 0x70 && code <= 0x8f) /* breg0 to breg31 */
            push_register(&evaluation, code - 0x70, stack_bytes_sleb(&bytes));
        else
            operate(&evaluation, code, &bytes);
        if (evaluation.is_bad || steps == OPERATIONS_MAX)
            return false;
    }
    *out = pop(&evaluation);
    return !evaluation.is_bad && !bytes.is_bad;
}
