/*
 * stacks.c: a table of slots, each of which names a row for ever once it names one; a row has a
 * stack's callers and counts.
 *
 * Slots get rows in order. When no row is left, a new stack takes one whose samples are all freed,
 * within reach of its hash; the old counts go to the row OTHER. Where all rows within reach have
 * live samples, the site alone is the stack, for which some rows are reserved; without room there,
 * OTHER takes the sample.
 *
 * Owner: any thread, lock-free; docs/protocols/profile.md. Users of a row keep its stack constant;
 * the thread that claimed it writes it.
 * S1: a row's freed sums never exceed its total sums. S2: the rows' totals add up to all that was
 * ever added. Design: docs/design/stacks.md
 */
#include "site/stacks.h"

#include "base/atomic.h"
#include "base/bits.h"

enum {
    ROWS = STACKS_LIMIT + STACKS_SITES + 1,
    ROWS_OF_STACKS = STACKS_LIMIT + 1, /* with OTHER; the others are for sites alone */
    OTHER = 1,
    SLOTS = 2 * STACKS_LIMIT,
    PROBES_MAX = SLOTS < 64 ? SLOTS : 64,
    TRIES_MAX = 4, /* to claim a row that other threads want */
    READS_MAX = 8,
};

/* Upper half of `users`: how often the row was filled. Lower half: its users, or CLAIMED. */
#define FILLED_ONE ((uint64_t)1 << 32)
#define CLAIMED UINT32_MAX

struct row {
    _Atomic uint64_t users;

    /* Constant while there are users. A search reads the hash before it is a user. */
    _Atomic uint64_t hash;
    _Atomic uint32_t depth;
    uint32_t padding;

    /* Any user adds. A change counts in `begun` before it and in `done` after it. */
    _Atomic uint32_t begun;
    _Atomic uint32_t done;
    _Atomic uint64_t weight;
    _Atomic uint64_t volume;
    _Atomic uint64_t weight_freed;
    _Atomic uint64_t volume_freed;
};
_Static_assert(sizeof(struct row) == CACHE_LINE_BYTES, "a stack's counters are one line");

struct tables {
    struct row rows[ROWS];
    _Atomic uint32_t slots[SLOTS]; /* numbers of rows, from 1; 0: none yet */
    _Atomic uintptr_t callers[ROWS][PROFILE_DEPTH_MAX];
};

static struct tables *_Atomic tables;
static _Atomic uint32_t rows_used = OTHER;
static _Atomic uint64_t cut;

size_t stacks_bytes(void)
{
    return sizeof(struct tables);
}

void stacks_start(void *memory)
{
    struct tables *in = (struct tables *)memory;
    store(&in->rows[OTHER - 1].users, 1, RELAXED); /* never claimed */
    store(&tables, in, RELEASE);
}

uint64_t stacks_cut(void)
{
    return load(&cut, RELAXED);
}

static struct row *row_of(struct tables *in, uint32_t number)
{
    return &in->rows[number - 1];
}

static const uintptr_t *callers_of(struct tables *in, uint32_t number)
{
    return (const uintptr_t *)(uintptr_t)in->callers[number - 1];
}

static uint64_t hash_of(const uintptr_t *callers, size_t depth)
{
    uint64_t hash = depth;
    for (size_t i = 0; i < depth; i++) {
        hash = (hash ^ callers[i]) * 0x9E3779B97F4A7C15;
        hash ^= hash >> 32;
    }
    return hash;
}

/* Adds a user, which keeps the row's stack. False: the row is being filled. */
static bool enter(struct row *row)
{
    uint64_t word = load(&row->users, RELAXED);
    while ((uint32_t)word != CLAIMED)
        if (compare_swap(&row->users, &word, word + 1, ACQUIRE, RELAXED)) /* U1: pairs with U4 */
            return true;
    return false;
}

static void leave(struct row *row)
{
    fetch_sub(&row->users, 1, RELEASE); /* U2: after the user's last change; pairs with U3 */
}

static bool is_idle(struct row *row)
{
    return (uint32_t)load(&row->users, RELAXED) == 0;
}

static bool claim(struct row *row)
{
    uint64_t word = load(&row->users, RELAXED);
    return (uint32_t)word == 0 &&
           compare_swap(&row->users, &word, word | CLAIMED, ACQUIRE, RELAXED); /* U3 */
}

/* Adds a request, or the end of one, or both, to a row's sums. */
static void change(struct row *row, struct estimate asked, struct estimate freed)
{
    fetch_add(&row->begun, 1, RELAXED);
    if (asked.weight != 0) {
        fetch_add(&row->weight, asked.weight, RELEASE); /* C1: after begun; pairs with C3 */
        fetch_add(&row->volume, asked.volume, RELEASE);
    }
    if (freed.weight != 0) {
        fetch_add(&row->weight_freed, freed.weight, RELEASE);
        fetch_add(&row->volume_freed, freed.volume, RELEASE);
    }
    fetch_add(&row->done, 1, RELEASE); /* C2 */
}

/* Moves a claimed row's counts to OTHER. */
static void empty(struct tables *in, struct row *row)
{
    struct estimate asked = {load(&row->weight, RELAXED), load(&row->volume, RELAXED)};
    struct estimate freed = {load(&row->weight_freed, RELAXED), load(&row->volume_freed, RELAXED)};
    if (asked.weight != 0)
        change(row_of(in, OTHER), asked, freed);
    store(&row->weight, 0, RELEASE);
    store(&row->volume, 0, RELEASE);
    store(&row->weight_freed, 0, RELEASE);
    store(&row->volume_freed, 0, RELEASE);
}

/* Gives a claimed row a stack and one user. Each store releases: a reader outside that sees one
 * sees the claim. */
static void fill(struct tables *in, uint32_t number, uint64_t hash, const uintptr_t *callers,
                 size_t depth)
{
    struct row *row = row_of(in, number);
    empty(in, row);
    store(&row->hash, hash, RELEASE);
    store(&row->depth, (uint32_t)depth, RELEASE);
    for (size_t i = 0; i < depth; i++)
        store(&in->callers[number - 1][i], callers[i], RELEASE);
    uint64_t filled = load(&row->users, RELAXED) / FILLED_ONE + 1;
    store(&row->users, filled * FILLED_ONE + 1, RELEASE); /* U4 */
}

/* Whether a row has the stack; then the caller becomes its user. */
static bool enter_same(struct tables *in, uint32_t number, uint64_t hash, const uintptr_t *callers,
                       size_t depth)
{
    struct row *row = row_of(in, number);
    if (load(&row->hash, RELAXED) != hash || !enter(row))
        return false;
    if (load(&row->hash, RELAXED) == hash && load(&row->depth, RELAXED) == depth &&
        __builtin_memcmp(callers_of(in, number), callers, depth * sizeof *callers) == 0)
        return true;
    leave(row);
    return false;
}

/* Number of an unused row among the first `limit`; 0: none is left. */
static uint32_t fresh_row(uint32_t limit)
{
    uint32_t used = load(&rows_used, RELAXED);
    while (used < limit)
        if (compare_swap(&rows_used, &used, used + 1, RELAXED, RELAXED))
            return used + 1;
    return 0;
}

/* Row that a slot names, or from now on names; 0: none is left. */
static uint32_t row_at(_Atomic uint32_t *slot, uint32_t limit)
{
    uint32_t number = load(slot, RELAXED); /* S1: rows are zero until they are filled */
    if (number != 0)
        return number;
    uint32_t made = fresh_row(limit);
    if (made == 0 || compare_swap(slot, &number, made, RELAXED, RELAXED)) /* S2 */
        return made;
    return number;
}

/* Searches the slots within reach. Returns the number of the stack's row, entered, or 0; then
 * `*idle` is the idle row with the least volume among the first `limit`, or 0. */
static uint32_t look_up(struct tables *in, const uintptr_t *callers, size_t depth, uint64_t hash,
                        uint32_t limit, uint32_t *idle)
{
    uint64_t least = UINT64_MAX;
    for (unsigned probe = 0; probe < PROBES_MAX; probe++) {
        uint32_t number = row_at(&in->slots[(hash + probe) % SLOTS], limit);
        if (number == 0)
            continue; /* no row was left when this slot was first read */
        if (enter_same(in, number, hash, callers, depth))
            return number;
        struct row *row = row_of(in, number);
        uint64_t volume = load(&row->volume, RELAXED);
        if (number > limit || volume >= least || !is_idle(row))
            continue;
        *idle = number;
        least = volume;
        if (volume == 0)
            return 0; /* a fresh one: until rows run out, no stack lies behind it */
    }
    return 0;
}

/* Number of the stack's row, entered. 0: no row of the first `limit` is available. */
static uint32_t find(struct tables *in, const uintptr_t *callers, size_t depth, uint32_t limit)
{
    uint64_t hash = hash_of(callers, depth);
    for (unsigned tries = 0; tries < TRIES_MAX; tries++) {
        uint32_t idle = 0;
        uint32_t number = look_up(in, callers, depth, hash, limit, &idle);
        if (number != 0 || idle == 0)
            return number;
        if (claim(row_of(in, idle))) {
            fill(in, idle, hash, callers, depth);
            return idle;
        }
    }
    return 0;
}

uint32_t stacks_enter(const uintptr_t *callers, size_t depth)
{
    struct tables *in = load(&tables, ACQUIRE);
    uint32_t number = find(in, callers, depth, ROWS_OF_STACKS);
    if (likely(number != 0))
        return number;
    fetch_add(&cut, 1, RELAXED);
    if ((number = find(in, callers, 1, ROWS)) != 0)
        return number;
    enter(row_of(in, OTHER));
    return OTHER;
}

void stacks_leave(uint32_t stack)
{
    leave(row_of(load(&tables, ACQUIRE), stack));
}

void stacks_add(uint32_t stack, struct estimate estimate)
{
    change(row_of(load(&tables, ACQUIRE), stack), estimate, (struct estimate){0, 0});
}

void stacks_end(uint32_t stack, struct estimate estimate)
{
    struct row *row = row_of(load(&tables, ACQUIRE), stack);
    change(row, (struct estimate){0, 0}, estimate);
    leave(row);
}

static uint64_t rounded(uint64_t value, unsigned bits)
{
    return (value >> bits) + (value >> (bits - 1) & 1);
}

/* Difference of two sums, at least 0: a reader may see them in an order that no thread wrote. */
static uint64_t left_of(uint64_t all, uint64_t freed)
{
    return all - (freed < all ? freed : all);
}

/* Reads a row as its user: numbers that belong together, unless they change all the time. */
static struct profile_stack read_row(struct tables *in, uint32_t number)
{
    struct row *row = row_of(in, number);
    uint64_t weight = 0, volume = 0, weight_freed = 0, volume_freed = 0;
    for (unsigned reads = 0; reads < READS_MAX; reads++) {
        uint32_t done = load(&row->done, ACQUIRE);
        weight_freed = load(&row->weight_freed, ACQUIRE); /* C3 */
        volume_freed = load(&row->volume_freed, ACQUIRE);
        weight = load(&row->weight, ACQUIRE);
        volume = load(&row->volume, ACQUIRE);
        if (load(&row->begun, RELAXED) == done)
            break;
    }
    return (struct profile_stack){
        .callers = callers_of(in, number),
        .depth = load(&row->depth, RELAXED),
        .live_blocks = rounded(left_of(weight, weight_freed), WEIGHT_BITS),
        .live_bytes = rounded(left_of(volume, volume_freed), VOLUME_BITS),
        .all_blocks = rounded(weight, WEIGHT_BITS),
        .all_bytes = rounded(volume, VOLUME_BITS),
    };
}

void stacks_visit(void (*visit)(const struct profile_stack *stack, void *context), void *context)
{
    struct tables *in = load(&tables, ACQUIRE);
    uint32_t used = in == NULL ? 0 : load(&rows_used, RELAXED);
    for (uint32_t number = 1; number <= used; number++) {
        struct row *row = row_of(in, number);
        if (load(&row->weight, RELAXED) == 0 || !enter(row))
            continue; /* a row being filled has nothing live */
        struct profile_stack stack = read_row(in, number);
        if (stack.all_blocks != 0)
            visit(&stack, context);
        leave(row);
    }
}

const struct watch_fact stacks_facts[] = {
    FACT_AT("stacks.tables", tables),
    FACT_AT("stacks.used", rows_used),
    FACT_AT("stacks.cut", cut),
    FACT_NUMBER("stacks.limit", ROWS),
    FACT_NUMBER("stacks.other", OTHER),
    FACT_NUMBER("stacks.depth_max", PROFILE_DEPTH_MAX),
    FACT_NUMBER("stacks.rows", offsetof(struct tables, rows)),
    FACT_NUMBER("stacks.row_bytes", sizeof(struct row)),
    FACT_NUMBER("stacks.users", offsetof(struct row, users)),
    FACT_NUMBER("stacks.depth", offsetof(struct row, depth)),
    FACT_NUMBER("stacks.begun", offsetof(struct row, begun)),
    FACT_NUMBER("stacks.done", offsetof(struct row, done)),
    FACT_NUMBER("stacks.weight", offsetof(struct row, weight)),
    FACT_NUMBER("stacks.volume", offsetof(struct row, volume)),
    FACT_NUMBER("stacks.weight_freed", offsetof(struct row, weight_freed)),
    FACT_NUMBER("stacks.volume_freed", offsetof(struct row, volume_freed)),
    FACT_NUMBER("stacks.callers", offsetof(struct tables, callers)),
    FACT_NUMBER("stacks.weight_bits", WEIGHT_BITS),
    FACT_NUMBER("stacks.volume_bits", VOLUME_BITS),
    FACTS_END,
};
