/*
 * stacks.c: a table of slots that name entries, entries that fill up one after the other, and the
 * entries' callers behind each other in one array.
 *
 * Whoever finds a stack missing writes an entry first and then its number into an empty slot, so
 * that what a slot names is whole. Two threads may do so at once with one stack; then the loser's
 * entry is left without a name.
 *
 * Owner: any thread, lock-free; docs/protocols/profile.md. Nothing is ever taken out.
 * S1: an entry's freed sums never exceed its sums of all. Design: docs/design/profiler.md
 */
#include "site/stacks.h"

#include "base/atomic.h"
#include "base/bits.h"

enum { SLOTS = 2 * STACKS_LIMIT, PROBES_MAX = 64, READS_MAX = 8 };

struct entry {
    /* Constant once depth is not 0. */
    uint64_t hash;
    uint32_t first_caller;
    _Atomic uint32_t depth;

    /* Any thread adds. A change counts in `begun` before it and in `done` after it. */
    _Atomic uint32_t begun;
    _Atomic uint32_t done;
    _Atomic uint64_t weight;
    _Atomic uint64_t volume;
    _Atomic uint64_t weight_freed;
    _Atomic uint64_t volume_freed;
    uint64_t padding;
};
_Static_assert(sizeof(struct entry) == CACHE_LINE_BYTES, "a stack's counters are one line");

struct tables {
    struct entry entries[STACKS_LIMIT];
    _Atomic uint32_t slots[SLOTS]; /* numbers of entries, from 1; 0: empty */
    uintptr_t callers[STACK_CALLERS_LIMIT];
};

static struct tables *_Atomic tables;
static _Atomic uint32_t entries_used;
static _Atomic uint32_t callers_used;

size_t stacks_bytes(void)
{
    return sizeof(struct tables);
}

void stacks_start(void *memory)
{
    store(&tables, (struct tables *)memory, RELEASE);
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

static bool is_same(const struct tables *in, uint32_t number, uint64_t hash,
                    const uintptr_t *callers, size_t depth)
{
    struct entry *entry = (struct entry *)(uintptr_t)&in->entries[number - 1];
    const uintptr_t *own = &in->callers[entry->first_caller];
    return entry->hash == hash && load(&entry->depth, RELAXED) == depth &&
           __builtin_memcmp(own, callers, depth * sizeof *own) == 0;
}

/* Takes `count` of what `used` counts up to `limit`. False: there are not as many. */
static bool reserve(_Atomic uint32_t *used, size_t count, size_t limit, uint32_t *first)
{
    if (load(used, RELAXED) + count > limit)
        return false;
    *first = fetch_add(used, (uint32_t)count, RELAXED);
    return *first + count <= limit;
}

/* An entry that no slot names yet; its number, or 0. */
static uint32_t make(struct tables *in, uint64_t hash, const uintptr_t *callers, size_t depth)
{
    uint32_t index, first;
    if (!reserve(&callers_used, depth, STACK_CALLERS_LIMIT, &first) ||
        !reserve(&entries_used, 1, STACKS_LIMIT, &index))
        return 0;
    struct entry *entry = &in->entries[index];
    entry->hash = hash;
    entry->first_caller = first;
    __builtin_memcpy(&in->callers[first], callers, depth * sizeof *callers);
    store(&entry->depth, (uint32_t)depth, RELEASE); /* S2: pairs with S4 */
    return index + 1;
}

uint32_t stacks_find(const uintptr_t *callers, size_t depth)
{
    struct tables *in = load(&tables, ACQUIRE);
    uint64_t hash = hash_of(callers, depth);
    uint32_t made = 0;
    for (unsigned probe = 0; probe < PROBES_MAX; probe++) {
        _Atomic uint32_t *slot = &in->slots[(hash + probe) % SLOTS];
        uint32_t number = load(slot, ACQUIRE); /* S1: pairs with S3 */
        if (number == 0 && made == 0 && (made = make(in, hash, callers, depth)) == 0)
            return 0;
        /* S3 release: publishes the entry; a loser finds the winner's number. */
        if (number == 0 && compare_swap(slot, &number, made, ACQ_REL, ACQUIRE))
            return made;
        if (is_same(in, number, hash, callers, depth))
            return number;
    }
    return 0;
}

static void change(struct entry *entry, _Atomic uint64_t *weight, _Atomic uint64_t *volume,
                   struct estimate estimate)
{
    fetch_add(&entry->begun, 1, RELAXED);
    fetch_add(weight, estimate.weight, RELEASE); /* C1: after begun; pairs with C3 */
    fetch_add(volume, estimate.volume, RELEASE);
    fetch_add(&entry->done, 1, RELEASE); /* C2 */
}

void stacks_add(uint32_t stack, struct estimate estimate)
{
    struct entry *entry = &load(&tables, ACQUIRE)->entries[stack - 1];
    change(entry, &entry->weight, &entry->volume, estimate);
}

void stacks_end(uint32_t stack, struct estimate estimate)
{
    struct entry *entry = &load(&tables, ACQUIRE)->entries[stack - 1];
    change(entry, &entry->weight_freed, &entry->volume_freed, estimate);
}

static uint64_t rounded(uint64_t value, unsigned bits)
{
    return (value >> bits) + (value >> (bits - 1) & 1);
}

/* What lies between two sums; a reader may find them in an order that nobody wrote them in. */
static uint64_t left_of(uint64_t all, uint64_t freed)
{
    return all - (freed < all ? freed : all);
}

/* Numbers that belong together, unless the stack changes all the time. */
static struct profile_stack read_entry(const struct tables *in, struct entry *entry, size_t depth)
{
    uint64_t weight = 0, volume = 0, weight_freed = 0, volume_freed = 0;
    for (unsigned reads = 0; reads < READS_MAX; reads++) {
        uint32_t done = load(&entry->done, ACQUIRE);
        weight_freed = load(&entry->weight_freed, ACQUIRE); /* C3 */
        volume_freed = load(&entry->volume_freed, ACQUIRE);
        weight = load(&entry->weight, ACQUIRE);
        volume = load(&entry->volume, ACQUIRE);
        if (load(&entry->begun, RELAXED) == done)
            break;
    }
    return (struct profile_stack){
        .callers = &in->callers[entry->first_caller],
        .depth = depth,
        .live_blocks = rounded(left_of(weight, weight_freed), WEIGHT_BITS),
        .live_bytes = rounded(left_of(volume, volume_freed), VOLUME_BITS),
        .all_blocks = rounded(weight, WEIGHT_BITS),
        .all_bytes = rounded(volume, VOLUME_BITS),
    };
}

void stacks_visit(void (*visit)(const struct profile_stack *stack, void *context), void *context)
{
    struct tables *in = load(&tables, ACQUIRE);
    size_t count = in == NULL ? 0 : size_min(load(&entries_used, RELAXED), STACKS_LIMIT);
    for (size_t i = 0; i < count; i++) {
        struct entry *entry = &in->entries[i];
        size_t depth = load(&entry->depth, ACQUIRE); /* S4 */
        if (depth == 0)
            continue;
        struct profile_stack stack = read_entry(in, entry, depth);
        if (stack.all_blocks != 0)
            visit(&stack, context);
    }
}

const struct watch_fact stacks_facts[] = {
    FACT_AT("stacks.tables", tables),
    FACT_AT("stacks.used", entries_used),
    FACT_NUMBER("stacks.limit", STACKS_LIMIT),
    FACT_NUMBER("stacks.depth_max", PROFILE_DEPTH_MAX),
    FACT_NUMBER("stacks.entries", offsetof(struct tables, entries)),
    FACT_NUMBER("stacks.entry_bytes", sizeof(struct entry)),
    FACT_NUMBER("stacks.first_caller", offsetof(struct entry, first_caller)),
    FACT_NUMBER("stacks.depth", offsetof(struct entry, depth)),
    FACT_NUMBER("stacks.weight", offsetof(struct entry, weight)),
    FACT_NUMBER("stacks.volume", offsetof(struct entry, volume)),
    FACT_NUMBER("stacks.weight_freed", offsetof(struct entry, weight_freed)),
    FACT_NUMBER("stacks.volume_freed", offsetof(struct entry, volume_freed)),
    FACT_NUMBER("stacks.callers", offsetof(struct tables, callers)),
    FACT_NUMBER("stacks.weight_bits", WEIGHT_BITS),
    FACT_NUMBER("stacks.volume_bits", VOLUME_BITS),
    FACTS_END,
};
