/*
 * bounded.c: a heap for any sizes in constant time: two-level segregated fit, with metadata out of
 * line.
 *
 * A request is rounded up to the next length that begins a list, so any run of that list or a
 * longer one is large enough: two bit map look-ups, no search. A free merges with its neighbours,
 * whose near ends tell their kind.
 *
 * Source: Masmano, Ripoll, Crespo, Real: TLSF, a new dynamic memory allocator for real-time systems
 * (ECRTS 2004).   Owner: one thread at a time.   Design: docs/design/bounded.md
 */
#include "pool/bounded.h"

enum {
    UNIT = CALM_BOUNDED_UNIT,
    UNIT_LOG2 = 6,
    META_A_UNIT = 3 * sizeof(uint32_t),
    OWN_BYTES = (sizeof(struct calm_bounded) + UNIT - 1) / UNIT * UNIT,
    EXACT_BELOW = BOUNDED_STEPS,
};

struct list {
    uint32_t level, step;
};

/* The list of runs of this length. */
ALWAYS_INLINE struct list list_of(uint32_t length)
{
    if (length < EXACT_BELOW)
        return (struct list){0, length};
    uint32_t log2 = bit_highest(length);
    uint32_t step = (length >> (log2 - BOUNDED_STEP_LOG2)) & (BOUNDED_STEPS - 1);
    return (struct list){log2 - BOUNDED_STEP_LOG2 + 1, step};
}

/* The least length of at least `length` that begins a list. */
ALWAYS_INLINE uint32_t rounded(uint32_t length)
{
    if (length < EXACT_BELOW)
        return length;
    uint32_t step = (uint32_t)1 << (bit_highest(length) - BOUNDED_STEP_LOG2);
    return (length + step - 1) & ~(step - 1);
}

ALWAYS_INLINE uint32_t kind_of(uint32_t word)
{
    return word & ~(uint32_t)BOUNDED_LENGTH;
}

ALWAYS_INLINE uint32_t length_of(uint32_t word)
{
    return word & BOUNDED_LENGTH;
}

/* Adds a free run: writes both ends, its list and the bits. */
ALWAYS_INLINE void add_run(calm_bounded *heap, uint32_t at, uint32_t length)
{
    heap->units[at + length - 1] = PIECE_RUN_END | length;
    heap->units[at] = PIECE_RUN | length;
    struct list list = list_of(length);
    uint32_t *first = &heap->first[list.level][list.step];
    heap->next[at] = *first;
    heap->before[at] = BOUNDED_NONE;
    if (*first != BOUNDED_NONE)
        heap->before[*first] = at;
    *first = at;
    heap->steps[list.level] = (uint8_t)(heap->steps[list.level] | 1u << list.step);
    heap->levels |= 1u << list.level;
}

/* Removes a free run from its list. */
ALWAYS_INLINE void remove_run(calm_bounded *heap, uint32_t at, uint32_t length)
{
    struct list list = list_of(length);
    uint32_t next = heap->next[at], before = heap->before[at];
    if (next != BOUNDED_NONE)
        heap->before[next] = before;
    if (before != BOUNDED_NONE) {
        heap->next[before] = next;
        return;
    }
    heap->first[list.level][list.step] = next;
    if (next != BOUNDED_NONE)
        return;
    heap->steps[list.level] = (uint8_t)(heap->steps[list.level] & ~(1u << list.step));
    if (heap->steps[list.level] == 0)
        heap->levels &= ~(1u << list.level);
}

/* A free run of at least `length`, which must begin a list. BOUNDED_NONE: no list has one. */
ALWAYS_INLINE uint32_t find(const calm_bounded *heap, uint32_t length)
{
    struct list list = list_of(length);
    uint32_t level = list.level;
    if (level >= BOUNDED_LEVELS)
        return BOUNDED_NONE;
    uint32_t steps = heap->steps[level] & (UINT32_MAX << list.step);
    if (steps == 0) {
        uint32_t levels = heap->levels & (UINT32_MAX << level << 1);
        if (levels == 0)
            return BOUNDED_NONE;
        level = bit_lowest(levels);
        steps = heap->steps[level];
    }
    return heap->first[level][bit_lowest(steps)];
}

EXPORT int calm_bounded_create(void *memory, size_t bytes, calm_bounded **out)
{
    if (memory == NULL || out == NULL)
        return CALM_ENULL;
    if ((uintptr_t)memory % UNIT != 0)
        return CALM_EMEMORY_ALIGN;
    if ((uintptr_t)memory > UINTPTR_MAX - bytes)
        return CALM_EMEMORY_END;
    if (bytes < OWN_BYTES + UNIT - 1 + UNIT + META_A_UNIT)
        return CALM_EBYTES_SMALL;
    size_t count = (bytes - OWN_BYTES - (UNIT - 1)) / (UNIT + META_A_UNIT);
    if (count > BOUNDED_UNITS_MAX - 1)
        return CALM_EBYTES_LARGE;
    calm_bounded *heap = (calm_bounded *)memory;
    __builtin_memset(heap, 0, OWN_BYTES + count * META_A_UNIT);
    __builtin_memset(heap->first, 0xFF, sizeof heap->first);
    heap->units = (uint32_t *)((char *)memory + OWN_BYTES);
    heap->next = heap->units + count;
    heap->before = heap->next + count;
    heap->start = (char *)memory + align_up(OWN_BYTES + count * META_A_UNIT, UNIT);
    heap->count = (uint32_t)count;
    heap->free_units = (uint32_t)count;
    add_run(heap, 0, (uint32_t)count);
    *out = heap;
    return CALM_OK;
}

EXPORT void *calm_bounded_alloc(calm_bounded *heap, size_t bytes) CALM_NONBLOCKING
{
    if (bytes > (size_t)BOUNDED_UNITS_MAX * UNIT)
        return NULL;
    uint32_t length = bytes == 0 ? 1 : (uint32_t)((bytes + UNIT - 1) >> UNIT_LOG2);
    uint32_t at = find(heap, rounded(length));
    if (at == BOUNDED_NONE)
        return NULL;
    uint32_t have = length_of(heap->units[at]);
    remove_run(heap, at, have);
    if (have > length)
        add_run(heap, at + length, have - length);
    else
        heap->units[at + length - 1] = PIECE_INSIDE; /* no run ends here any longer */
    heap->units[at] = PIECE_LIVE | length;
    heap->free_units -= length;
    return heap->start + ((size_t)at << UNIT_LOG2);
}

/* Finds the unit of a live block. Else returns the address's error. */
ALWAYS_INLINE int locate(const calm_bounded *heap, const void *block, uint32_t *out)
{
    size_t offset = (uintptr_t)block - (uintptr_t)heap->start;
    if (offset >= (size_t)heap->count << UNIT_LOG2)
        return CALM_EFOREIGN;
    if ((offset & (UNIT - 1)) != 0)
        return CALM_EMISALIGNED;
    *out = (uint32_t)(offset >> UNIT_LOG2);
    switch (kind_of(heap->units[*out])) {
    case PIECE_LIVE: return CALM_OK;
    case PIECE_INSIDE: return CALM_EINTERIOR;
    default: return CALM_EDOUBLE;
    }
}

EXPORT int calm_bounded_free(calm_bounded *heap, void *block) CALM_NONBLOCKING
{
    if (block == NULL)
        return CALM_OK;
    uint32_t at;
    int error = locate(heap, block, &at);
    if (error != 0)
        return error;
    uint32_t length = length_of(heap->units[at]);
    uint32_t behind = at + length;
    heap->free_units += length;
    heap->units[at] = PIECE_FREED;
    if (behind < heap->count && kind_of(heap->units[behind]) == PIECE_RUN) {
        uint32_t more = length_of(heap->units[behind]);
        remove_run(heap, behind, more);
        heap->units[behind] = PIECE_FREED;
        length += more;
    }
    uint32_t before = at > 0 ? heap->units[at - 1] : PIECE_INSIDE;
    if (kind_of(before) == PIECE_RUN_END || kind_of(before) == PIECE_RUN) {
        uint32_t more = length_of(before); /* a run of one unit is both ends */
        remove_run(heap, at - more, more);
        heap->units[at - 1] = PIECE_FREED;
        at -= more;
        length += more;
    }
    add_run(heap, at, length);
    return CALM_OK;
}

EXPORT size_t calm_bounded_usable_size(const calm_bounded *heap, const void *block)
{
    uint32_t at;
    return locate(heap, block, &at) == 0 ? (size_t)length_of(heap->units[at]) << UNIT_LOG2 : 0;
}

EXPORT size_t calm_bounded_free_bytes(const calm_bounded *heap)
{
    return (size_t)heap->free_units << UNIT_LOG2;
}

EXPORT size_t calm_bounded_capacity(size_t live_bytes, size_t live_blocks, size_t largest)
{
    size_t limit = (size_t)BOUNDED_UNITS_MAX * UNIT;
    if (live_bytes > limit || largest > limit || live_blocks > BOUNDED_UNITS_MAX)
        return 0;
    size_t most = largest == 0 ? 1 : (largest + UNIT - 1) >> UNIT_LOG2;
    size_t live = size_max((live_bytes >> UNIT_LOG2) + live_blocks, most);
    size_t gap = rounded((uint32_t)most) - 1; /* longest free run that may be too short */
    size_t count = live + size_max(live_blocks, 1) * gap;
    if (count > BOUNDED_UNITS_MAX - 1)
        return 0;
    return OWN_BYTES + UNIT - 1 + count * (UNIT + META_A_UNIT);
}

static bool is_listed(const calm_bounded *heap, uint32_t at, uint32_t length)
{
    struct list list = list_of(length);
    uint32_t run = heap->first[list.level][list.step];
    while (run != BOUNDED_NONE && run != at)
        run = heap->next[run];
    return run == at && (heap->levels >> list.level & 1) != 0 &&
           (heap->steps[list.level] >> list.step & 1) != 0;
}

verdict bounded_verify(const calm_bounded *heap)
{
    uint32_t free_units = 0;
    bool was_free = false;
    for (uint32_t at = 0, length; at < heap->count; at += length) {
        uint32_t kind = kind_of(heap->units[at]);
        length = length_of(heap->units[at]);
        if ((kind != PIECE_LIVE && kind != PIECE_RUN) || length == 0 || length > heap->count - at)
            return "B1: no run begins where the one before ends";
        if (kind == PIECE_RUN && was_free)
            return "B1: two free runs are neighbours";
        was_free = kind == PIECE_RUN;
        if (!was_free)
            continue;
        free_units += length;
        if (length > 1 && heap->units[at + length - 1] != (PIECE_RUN_END | length))
            return "B2: a free run does not say its length at its end";
        if (!is_listed(heap, at, length))
            return "B3: a free run is in no list";
    }
    for (uint32_t level = 0; level < BOUNDED_LEVELS; level++)
        for (uint32_t step = 0; step < BOUNDED_STEPS; step++) {
            bool has_one = heap->first[level][step] != BOUNDED_NONE;
            if (has_one != ((heap->steps[level] >> step & 1) != 0))
                return "B3: a bit says of a list what is not so";
        }
    return free_units == heap->free_units ? NULL : "B1: free units do not sum up";
}
