/*
 * stack_rows.c: cache of rows by address.
 *
 * Finding a row takes a thousand instructions: the module's tables, the entry, its program. So rows
 * of the common kind are cached in a table of fixed size, where a new row replaces an old one. A
 * row of a module that is never unloaded before this code is permanent. Any other row may belong to
 * a library that was unloaded and replaced by another one at its addresses: such a row has a digest
 * of all bytes that determine it, which is recomputed on each use from the current tables.
 *
 * Owner: any thread, lock-free; a thread that cannot write a slot skips it. A slot's version is odd
 * during a write, and changes with each write: docs/protocols/profile.md. Design:
 * docs/design/stacks.md
 */
#include <string.h>

#include "base/atomic.h"
#include "base/bits.h"
#include "os/linux/auxiliary.h"
#include "os/linux/stack_parts.h"
#include "os/linux/stack_short.h"
#include "os/stack.h"

enum {
    SETS_LOG2 = 10,
    WAYS = 2,
    SLOTS = WAYS << SETS_LOG2,
    WORD = sizeof(uint64_t),
    WORDS = sizeof(struct stack_kept) / WORD,
    BRIEF_WORDS = WORDS - 2, /* without the fields for modules that may be unloaded */
    SAVE_WORDS_MAX = UINT16_MAX >> STACK_SAVE_BITS,
};
_Static_assert(WORDS *WORD == sizeof(struct stack_kept), "copied word by word");
_Static_assert(offsetof(struct stack_kept, index) == BRIEF_WORDS * WORD, "in this order");

struct slot {
    _Alignas(2 * CACHE_LINE_BYTES) _Atomic uint32_t version; /* odd: being written; 0: empty */
    _Atomic uintptr_t pc;
    _Atomic uint64_t words[WORDS]; /* a struct stack_kept */
};
static struct slot slots[SLOTS];

static struct slot *set_of(uintptr_t pc)
{
    return &slots[(pc * 0x9E3779B97F4A7C15 >> (64 - SETS_LOG2)) * WAYS];
}

/* Copies a slot. False: it is for another address, or is being written. */
ALWAYS_INLINE bool read_slot(struct slot *slot, uintptr_t pc, struct stack_kept *out)
{
    uint32_t version = load(&slot->version, ACQUIRE); /* R1: pairs with W3 */
    if (load(&slot->pc, ACQUIRE) != pc || version % 2 != 0)
        return false;
    uint64_t words[WORDS];
    for (unsigned i = 0; i < BRIEF_WORDS; i++)
        words[i] = load(&slot->words[i], ACQUIRE); /* R2: pairs with W2 */
    memcpy(out, words, BRIEF_WORDS * WORD);
    if (out->header != 0) {
        for (unsigned i = BRIEF_WORDS; i < WORDS; i++)
            words[i] = load(&slot->words[i], ACQUIRE);
        memcpy(out, words, sizeof *out);
    }
    return load(&slot->version, RELAXED) == version; /* R3 */
}

bool stack_rows_find(uintptr_t pc, struct stack_kept *out)
{
    struct slot *set = set_of(pc);
    return read_slot(&set[0], pc, out) || read_slot(&set[1], pc, out);
}

bool stack_rows_is_still(const struct stack_tables *tables, const struct stack_kept *kept)
{
    uint64_t digest;
    return tables->header == kept->header && stack_tables_digest(tables, kept->index, &digest) &&
           digest == kept->digest;
}

/* The slot to write: this address's, an empty one, or the less often written. */
static struct slot *choose(uintptr_t pc)
{
    struct slot *set = set_of(pc);
    for (unsigned i = 0; i < WAYS; i++)
        if (load(&set[i].pc, RELAXED) == pc)
            return &set[i];
    uint32_t first = load(&set[0].version, RELAXED), second = load(&set[1].version, RELAXED);
    return &set[first > second];
}

static void write_slot(struct slot *slot, uintptr_t pc, const struct stack_kept *kept)
{
    uint64_t words[WORDS];
    memcpy(words, kept, sizeof *kept);
    uint32_t version = load(&slot->version, RELAXED);
    if (version % 2 != 0 || !compare_swap(&slot->version, &version, version + 1, ACQUIRE, RELAXED))
        return;
    store(&slot->pc, pc, RELEASE); /* W1: publishes the odd version before the data */
    for (unsigned i = 0; i < WORDS; i++)
        store(&slot->words[i], words[i], RELEASE); /* W2 */
    store(&slot->version, version + 2, RELEASE);   /* W3 */
}

static bool holds(const struct stack_tables *tables, uintptr_t address)
{
    return address >= tables->code && address < tables->code_end;
}

/* Whether a module stays as long as this code: its own, the C library that it calls, the program.
 */
static bool is_lasting(const struct stack_tables *tables)
{
    return holds(tables, (uintptr_t)os_stack) || holds(tables, (uintptr_t)getauxval) ||
           holds(tables, auxiliary_value(AT_ENTRY));
}

/* Abridges a register's rule. False: it has no brief form. */
static bool abridge_rule(const struct stack_row *row, unsigned number, struct stack_brief *out)
{
    if (row->rules[number] == RULE_SAME)
        return true;
    int64_t below = -(int64_t)row->values[number];
    bool is_save = row->rules[number] == RULE_AT_OFFSET && number != STACK_SP &&
                   number < 1 << STACK_SAVE_BITS && below > 0 && below % WORD == 0 &&
                   below / WORD <= SAVE_WORDS_MAX && out->count < STACK_SAVES_MAX;
    if (!is_save)
        return false;
    uint16_t words = (uint16_t)(below / WORD);
    out->saves[out->count++] = (uint16_t)((unsigned)words << STACK_SAVE_BITS | number);
    out->saved |= (uint32_t)1 << number;
    out->nearest = out->nearest < words ? out->nearest : words;
    out->farthest = out->farthest > words ? out->farthest : words;
    return true;
}

static bool abridge(const struct stack_entry *entry, const struct stack_row *row,
                    struct stack_brief *out)
{
    *out = (struct stack_brief){
        .cfa_value = row->cfa_value,
        .cfa_register = row->cfa_register,
        .returns = (uint8_t)entry->return_register,
        .nearest = UINT16_MAX,
    };
    if (entry->is_signal_frame || row->is_cfa_expression ||
        entry->return_register >= STACK_REGISTERS)
        return false;
    if (row->rules[out->returns] == RULE_UNDEFINED) {
        out->is_outermost = true;
        return true;
    }
    for (uint64_t left = row->ruled; left != 0; left &= left - 1)
        if (!abridge_rule(row, bit_lowest(left), out))
            return false;
    return (out->saved >> out->returns & 1) != 0;
}

void stack_rows_keep(const struct stack_tables *tables, const struct stack_entry *entry,
                     const struct stack_row *row, uintptr_t pc)
{
    struct stack_kept kept = {.index = entry->index};
    if (!abridge(entry, row, &kept.brief))
        return;
    if (is_lasting(tables)) {
        short_keep(pc, &kept.brief);
    } else {
        kept.header = tables->header;
        if (!stack_tables_digest(tables, kept.index, &kept.digest))
            return;
    }
    write_slot(choose(pc), pc, &kept);
}
