/*
 * stack.c: the walk: from a frame to its caller's, until no information is left.
 *
 * A step takes the first of three ways that applies: the kernel's signal record; the function's
 * entry in the unwind tables; the chain of frame pointers. The CFA only grows on a stack, so a walk
 * ends; a signal that interrupted another stack begins a new stack. Only table lookups are cached
 * for later walks.
 */
#include "os/stack.h"

#include <string.h>

#include "base/bits.h"
#include "os/linux/stack_parts.h"
#include "os/linux/stack_short.h"

enum {
    FP_FRAME_BYTES_MAX = 256 << 10, /* a greater distance is no frame pointer */
    ADDRESS_MIN = 4096,
    CODE_PAGE = 4096,
    INSIDE_MAX = 16,
    TOLD_MAX = 8,
    INSIDE_BYTES_MAX = 16 << 10, /* largest distance from this function to the known caller */
};

struct walk {
    struct stack_frame frame;
    struct stack_memory memory;
    struct stack_tables tables; /* of the last module */
    uintptr_t code_page;        /* the last page that was found readable */
    uintptr_t kept_at;          /* where the frame's pc was saved; 0: in no stack word */
    bool is_fixed;              /* kept_at is at a constant distance from the previous sp */
    bool is_guessed;            /* a step was made without tables */
};

enum step { STEP_DONE, STEP_END, STEP_CANNOT };

/* Finds the tables of the module around `pc`. Most frames are in the same module as the frame
 * before. */
static bool find_tables(struct walk *walk, uintptr_t pc)
{
    const struct stack_tables *tables = &walk->tables;
    bool is_same = pc >= tables->code && pc < tables->code_end;
    return is_same || stack_tables_of(pc, &walk->tables);
}

static bool is_readable_code(struct walk *walk, uintptr_t at)
{
    if (at / CODE_PAGE == walk->code_page)
        return true;
    if (!stack_memory_is_readable(at))
        return false;
    walk->code_page = at / CODE_PAGE;
    return true;
}

static bool is_sigreturn(struct walk *walk, uintptr_t pc)
{
    return is_readable_code(walk, pc) && is_readable_code(walk, pc + STACK_SIGRETURN_BYTES - 1) &&
           memcmp((const void *)pc, STACK_SIGRETURN, STACK_SIGRETURN_BYTES) == 0;
}

/* Continues with the registers that a signal interrupted, on their stack. */
static enum step step_signal(struct walk *walk)
{
    struct stack_frame *frame = &walk->frame;
    if (!stack_knows(frame, STACK_SP) || !is_sigreturn(walk, frame->pc))
        return STEP_CANNOT;
    uintptr_t record = frame->registers[STACK_SP];
    for (unsigned i = 0; i < STACK_REGISTERS; i++) {
        uint64_t value;
        if (!stack_memory_read(&walk->memory, record + stack_saved_at[i], &value))
            return STEP_END;
        stack_set(frame, i, value);
    }
    frame->pc = frame->registers[STACK_PC];
    frame->is_exact = true;
    walk->kept_at = 0;
    walk->is_fixed = false;
    walk->is_guessed = true; /* a handler may have written to the record */
    uintptr_t sp = frame->registers[STACK_SP];
    if (sp >= record && sp < walk->memory.end)
        walk->memory.low = sp - STACK_RED_ZONE;
    else
        stack_memory_begin(&walk->memory, sp, stack_memory_is_readable(sp));
    return STEP_DONE;
}

static bool find_cfa(struct walk *walk, const struct stack_row *row, uint64_t *out)
{
    const struct stack_frame *frame = &walk->frame;
    if (row->is_cfa_expression)
        return stack_cfi_evaluate(&walk->tables, row->cfa_value, frame, &walk->memory, NULL, out);
    if (!stack_knows(frame, row->cfa_register))
        return false;
    *out = frame->registers[row->cfa_register] + (uint64_t)(int64_t)row->cfa_value;
    return true;
}

/* The caller's value of a register. False: unknown. */
static bool find_register(struct walk *walk, const struct stack_row *row, unsigned number,
                          uint64_t cfa, uint64_t *out)
{
    const struct stack_frame *frame = &walk->frame;
    int32_t value = row->values[number];
    switch ((enum stack_rule)row->rules[number]) {
    case RULE_SAME: *out = frame->registers[number]; return stack_knows(frame, number);
    case RULE_UNDEFINED: return false;
    case RULE_AT_OFFSET:
        return stack_memory_read(&walk->memory, cfa + (uint64_t)(int64_t)value, out);
    case RULE_IS_OFFSET: *out = cfa + (uint64_t)(int64_t)value; return true;
    case RULE_AT_EXPRESSION:
        return stack_cfi_evaluate(&walk->tables, value, frame, &walk->memory, &cfa, out) &&
               stack_memory_read(&walk->memory, *out, out);
    case RULE_IS_EXPRESSION:
        return stack_cfi_evaluate(&walk->tables, value, frame, &walk->memory, &cfa, out);
    case RULE_IN_REGISTER:
        if (!stack_knows(frame, (uint32_t)value))
            return false;
        *out = frame->registers[value];
        return true;
    }
    return false;
}

/* Whether a frame may end at `cfa`: above its stack pointer, since a call leaves something on the
 * stack. Only a function that a signal interrupted may have an empty frame. */
static bool is_above(const struct stack_frame *frame, uint64_t cfa)
{
    if (cfa % sizeof(uint64_t) != 0)
        return false;
    if (!stack_knows(frame, STACK_SP))
        return true;
    uint64_t sp = frame->registers[STACK_SP];
    return cfa > sp || (frame->is_exact && cfa == sp);
}

static enum step apply(struct walk *walk, const struct stack_entry *entry,
                       const struct stack_row *row)
{
    uint64_t cfa;
    if (entry->return_register >= STACK_REGISTERS || !find_cfa(walk, row, &cfa))
        return STEP_CANNOT;
    unsigned returns = (unsigned)entry->return_register;
    if (row->rules[returns] == RULE_UNDEFINED ||
        (!entry->is_signal_frame && !is_above(&walk->frame, cfa)))
        return STEP_END;
    struct stack_frame next = walk->frame;
    next.is_exact = entry->is_signal_frame;
    stack_set(&next, STACK_SP, cfa);
    for (uint64_t left = row->ruled; left != 0; left &= left - 1) {
        unsigned number = bit_lowest(left);
        uint64_t value;
        if (number == STACK_SP && row->rules[number] == RULE_SAME)
            continue; /* without a rule, sp is the CFA */
        if (find_register(walk, row, number, cfa, &value))
            stack_set(&next, number, value);
        else
            next.known &= ~((uint64_t)1 << number);
    }
    if (!stack_knows(&next, returns))
        return STEP_END;
    next.pc = os_code_address(next.registers[returns]);
    bool is_kept = row->rules[returns] == RULE_AT_OFFSET;
    walk->kept_at = is_kept ? cfa + (uint64_t)(int64_t)row->values[returns] : 0;
    walk->is_fixed = is_kept && !row->is_cfa_expression && row->cfa_register == STACK_SP &&
                     !entry->is_signal_frame;
    walk->frame = next;
    uintptr_t sp = next.registers[STACK_SP];
    if (entry->is_signal_frame)
        stack_memory_begin(&walk->memory, sp, stack_memory_is_readable(sp));
    else
        walk->memory.low = cfa;
    return STEP_DONE;
}

/* Uses a frame record: the caller's frame pointer, and the return address. */
static enum step step_frame_pointer(struct walk *walk)
{
    struct stack_frame *frame = &walk->frame;
    uintptr_t at = frame->registers[STACK_FP];
    uint64_t fp, pc;
    if (!stack_knows(frame, STACK_FP) ||
        at - walk->memory.low > FP_FRAME_BYTES_MAX || /* also true if `at` is below */
        !stack_memory_read(&walk->memory, at, &fp) ||
        !stack_memory_read(&walk->memory, at + sizeof fp, &pc))
        return STEP_END;
    frame->known = 0;
    stack_set(frame, STACK_FP, fp);
    if (STACK_FP_KNOWS_SP)
        stack_set(frame, STACK_SP, at + 2 * sizeof fp);
    frame->pc = os_code_address(pc);
    frame->is_exact = false;
    walk->kept_at = at + sizeof fp;
    walk->is_fixed = false;
    walk->is_guessed = true;
    walk->memory.low = at + 2 * sizeof fp;
    return STEP_DONE;
}

/* Whether the saves of a row, up to `cfa`, are readable without a check of each. */
static bool has_frame(struct walk *walk, const struct stack_brief *row, uint64_t cfa)
{
    struct stack_memory *memory = &walk->memory;
    uint64_t nearest = cfa - row->nearest * sizeof(uint64_t), word;
    if (cfa < row->farthest * sizeof(uint64_t) ||
        cfa - row->farthest * sizeof(uint64_t) < (uintptr_t)size_max(memory->low, memory->start))
        return false;
    return nearest < memory->end || stack_memory_read(memory, nearest, &word);
}

/* Like apply(), for a brief row; STEP_CANNOT: use the whole row. */
__attribute__((no_sanitize("address"), no_sanitize("thread"))) static enum step apply_brief(
    struct walk *walk, const struct stack_brief *row)
{
    struct stack_frame *frame = &walk->frame;
    if (!stack_knows(frame, row->cfa_register))
        return STEP_CANNOT;
    uint64_t cfa = frame->registers[row->cfa_register] + (uint64_t)(int64_t)row->cfa_value;
    if (row->is_outermost || !is_above(frame, cfa))
        return STEP_END;
    if (!has_frame(walk, row, cfa))
        return STEP_CANNOT;
    for (unsigned i = 0; i < row->count; i++) {
        unsigned save = row->saves[i], number = save & ((1u << STACK_SAVE_BITS) - 1);
        uintptr_t at = cfa - (save >> STACK_SAVE_BITS) * sizeof(uint64_t);
        frame->registers[number] = *(const volatile uint64_t *)at;
        if (number == row->returns)
            walk->kept_at = at;
    }
    frame->known |= row->saved;
    stack_set(frame, STACK_SP, cfa);
    frame->pc = os_code_address(frame->registers[row->returns]);
    frame->is_exact = false;
    walk->is_fixed = row->cfa_register == STACK_SP;
    walk->memory.low = cfa;
    return STEP_DONE;
}

/* Makes a step from a cached row. STEP_CANNOT: there is no valid one. */
ALWAYS_INLINE enum step step_kept(struct walk *walk, uintptr_t pc)
{
    struct stack_kept kept;
    bool is_kept = stack_rows_find(pc, &kept) &&
                   (kept.header == 0 ||
                    (find_tables(walk, pc) && stack_rows_is_still(&walk->tables, &kept)));
    return is_kept ? apply_brief(walk, &kept.brief) : STEP_CANNOT;
}

static NOINLINE enum step step_anew(struct walk *walk, uintptr_t pc)
{
    struct stack_entry entry;
    struct stack_row row;
    bool is_found = find_tables(walk, pc) && stack_tables_find(&walk->tables, pc, &entry);
    enum step result = STEP_CANNOT;
    if (!is_found || entry.is_signal_frame)
        result = step_signal(walk);
    if (result == STEP_CANNOT && is_found && stack_cfi_row(&walk->tables, &entry, pc, &row)) {
        stack_rows_keep(&walk->tables, &entry, &row, pc);
        result = apply(walk, &entry, &row);
    }
    return result == STEP_CANNOT ? step_frame_pointer(walk) : result;
}

static bool step(struct walk *walk)
{
    uintptr_t pc = walk->frame.pc - !walk->frame.is_exact; /* a call may be the last instruction */
    enum step result = step_kept(walk, pc);
    if (result == STEP_CANNOT)
        result = step_anew(walk, pc);
    return result == STEP_DONE && walk->frame.pc >= ADDRESS_MIN;
}

/* Begins in the enclosing function. */
ALWAYS_INLINE void begin(struct walk *walk)
{
    /* This builtin gives the function a frame pointer, for builds without tables. */
    uintptr_t record = (uintptr_t)__builtin_frame_address(0);
    walk->frame.pc = stack_seed(walk->frame.registers, &walk->frame.known);
    walk->frame.is_exact = true;
    stack_set(&walk->frame, STACK_FP, record);
    walk->tables = (struct stack_tables){0};
    walk->code_page = 0;
    walk->is_guessed = false;
    stack_memory_begin(&walk->memory, walk->frame.registers[STACK_SP], true);
}

NOINLINE size_t os_stack(uintptr_t *callers, size_t max)
{
    struct walk walk;
    begin(&walk);
    size_t count = 0;
    if (!step(&walk)) /* out of this function */
        return 0;
    while (count < max && step(&walk))
        callers[count++] = walk.frame.pc;
    return count;
}

/* A frame with a known stack pointer. An unknown frame pointer is 0, which is below all frames. */
struct short_frame {
    uintptr_t pc, sp, fp;
};

/* Steps to the caller by a short row. False: there is no row, or it is inconsistent. */
__attribute__((always_inline, no_sanitize("address"), no_sanitize("thread"))) static inline bool
step_short(struct short_frame *frame, struct stack_memory *memory)
{
    uint64_t row = short_find(frame->pc - 1), word;
    uintptr_t cfa = (short_is_by_fp(row) ? frame->fp : frame->sp) + short_cfa_bytes(row);
    if (unlikely(cfa <= frame->sp || cfa % sizeof word != 0 ||
                 short_fp_bytes(row) > cfa - frame->sp))
        return false;
    if (unlikely(cfa > memory->end && !stack_memory_read(memory, cfa - sizeof word, &word)))
        return false;
    if (short_fp_bytes(row) != 0)
        frame->fp = *(const volatile uintptr_t *)(cfa - short_fp_bytes(row));
    frame->pc = *(const volatile uintptr_t *)(cfa - sizeof word);
    frame->sp = cfa;
    return true;
}

/* Continues by short rows, from a frame with a known stack pointer. Adds callers up to `max`, and
 * leaves the walk at the first frame without a row. STEP_END: no more callers. */
static enum step walk_short(struct walk *walk, uintptr_t *callers, size_t *count, size_t max)
{
    struct short_frame frame = {walk->frame.pc, walk->frame.registers[STACK_SP], 0};
    enum step result = STEP_CANNOT;
    for (; *count < max && step_short(&frame, &walk->memory); callers[(*count)++] = frame.pc) {
        if (unlikely(frame.pc < ADDRESS_MIN)) {
            result = STEP_END;
            break;
        }
    }
    if (*count == max || short_is_end(short_find(frame.pc - 1)))
        result = STEP_END;
    walk->memory.low = frame.sp;
    walk->frame.pc = frame.pc;
    walk->frame.known = 0;
    stack_set(&walk->frame, STACK_SP, frame.sp);
    if (frame.fp != 0)
        stack_set(&walk->frame, STACK_FP, frame.fp);
    return result;
}

size_t os_stack_from(uintptr_t caller, uintptr_t sp, uintptr_t *callers, size_t max)
{
    uintptr_t below = sp - sizeof(uintptr_t), here = (uintptr_t)__builtin_frame_address(0);
    if (!STACK_CALLS_PUSH || max == 0 || sp % sizeof(uint64_t) != 0 ||
        below - here > INSIDE_BYTES_MAX || *(const volatile uintptr_t *)below != caller)
        return 0;
    struct walk walk;
    stack_memory_begin(&walk.memory, below, true);
    walk.tables = (struct stack_tables){0};
    walk.code_page = 0;
    walk.frame.registers[STACK_SP] = sp;
    walk.frame.pc = caller;
    walk.frame.is_exact = false;
    callers[0] = caller;
    size_t count = 1;
    enum step result = walk_short(&walk, callers, &count, max);
    while (result != STEP_END && count < max) {
        result = step_kept(&walk, walk.frame.pc - 1);
        if (result == STEP_CANNOT)
            return 0;
        if (walk.frame.pc < ADDRESS_MIN)
            break;
        if (result == STEP_DONE)
            callers[count++] = walk.frame.pc;
    }
    return count;
}

NOINLINE size_t os_callers(uintptr_t first, struct os_caller *callers, size_t max)
{
    struct walk walk;
    begin(&walk);
    if (!step(&walk))
        return 0;
    size_t count = 0;
    for (unsigned inside = 0; count < max && step(&walk); inside++) {
        const struct stack_frame *frame = &walk.frame;
        if (count == 0 && frame->pc != first) {
            if (inside == INSIDE_MAX)
                break;
            continue;
        }
        callers[count++] = (struct os_caller){
            .address = frame->pc,
            .sp = stack_knows(frame, STACK_SP) ? frame->registers[STACK_SP] : 0,
            .kept_at = walk.kept_at,
            .is_fixed = walk.is_fixed,
            .is_told = !walk.is_guessed,
        };
    }
    return count;
}

/*
 * Like os_stack_told(), by short rows alone: 0 if one is missing. `record`: the frame record of
 * os_stack_told(), so the frame pointer is known as in a whole walk.
 */
__attribute__((always_inline, no_sanitize("address"), no_sanitize("thread"))) static inline size_t
told_short(const volatile uintptr_t *record, uintptr_t first, uintptr_t first_sp,
           uintptr_t *callers, size_t max)
{
    uintptr_t here = (uintptr_t)record;
    if (!STACK_CALLS_PUSH || first_sp - here > INSIDE_BYTES_MAX)
        return 0;
    struct short_frame frame = {record[1], here + 2 * sizeof(uintptr_t), record[0]};
    struct stack_memory memory;
    stack_memory_begin(&memory, first_sp, true); /* the memory below holds the walk's own frames */
    for (unsigned inside = 0; frame.sp != first_sp; inside++)
        if (inside == INSIDE_MAX || frame.sp > first_sp || !step_short(&frame, &memory))
            return 0;
    if (frame.pc != first)
        return 0;
    size_t count = 0;
    callers[count++] = first;
    while (count < max && step_short(&frame, &memory) && frame.pc >= ADDRESS_MIN)
        callers[count++] = frame.pc;
    return count == max || short_is_end(short_find(frame.pc - 1)) ? count : 0;
}

/* Uses a whole walk, which caches the rows that it needs. */
static NOINLINE size_t told_whole(uintptr_t first, uintptr_t first_sp, uintptr_t *callers,
                                  size_t max)
{
    struct os_caller found[TOLD_MAX];
    size_t count = 0;
    size_t walked = os_callers(first, found, size_min(max, TOLD_MAX));
    if (walked == 0 || found[0].sp != first_sp)
        return 0;
    while (count < walked && found[count].is_told) {
        callers[count] = found[count].address;
        count++;
    }
    return count;
}

__attribute__((noinline, no_sanitize("address"), no_sanitize("thread"))) size_t
os_stack_told(uintptr_t first, uintptr_t first_sp, uintptr_t *callers, size_t max)
{
    const volatile uintptr_t *record = (const volatile uintptr_t *)__builtin_frame_address(0);
    size_t count = told_short(record, first, first_sp, callers, max);
    return likely(count != 0) ? count : told_whole(first, first_sp, callers, max);
}
