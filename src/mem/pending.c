/*
 * pending.c: stacks of spans by owner, state and length.
 *
 * One stack for each length up to PENDING_EXACT_MAX units, then one for each doubling. A span's
 * stack says whether the span reads as zero; its first tag has its length and the link.
 *
 * Owner: any thread, lock-free: base/tagged_stack.h. Design: docs/design/spans.md
 */
#include "mem/pending.h"

#include "mem/span_lists.h"

enum { JOIN_MAX = 4096 }; /* spans that one thread joins at once */

static _Atomic size_t counts[2];
static _Atomic uint64_t used[2][SPAN_OWNER_LIMIT / 64]; /* by owner: whether there may be some */

size_t pending_units(unsigned state)
{
    return load(&counts[state - SPAN_DIRTY], RELAXED);
}

static _Atomic uint32_t *link_of(uint32_t unit)
{
    return &region.tags[unit].next;
}

static unsigned stack_of(size_t units)
{
    return units <= PENDING_EXACT_MAX
               ? (unsigned)units - 1
               : PENDING_EXACT_MAX + bit_highest(units) - bit_highest(PENDING_EXACT_MAX);
}

static struct tagged_stack *stacks_of(unsigned owner, unsigned state)
{
    return span_lists_pending(owner)->stacks[state - SPAN_DIRTY];
}

/* Sets the bit unconditionally: a test of the bit could run before the push. */
static void push(unsigned owner, unsigned state, size_t unit, size_t units)
{
    tagged_push(&stacks_of(owner, state)[stack_of(units)], (uint32_t)unit, link_of);
    fetch_or(&used[state - SPAN_DIRTY][owner / 64], (uint64_t)1 << owner % 64, RELEASE);
}

/* Counts the span before another thread can take it, so that the count is never too low. */
void pending_put(size_t unit, size_t units, unsigned state)
{
    region.tags[unit].units = (uint32_t)units;
    fetch_add(&counts[state - SPAN_DIRTY], units, RELAXED);
    push(region.tags[unit].owner, state, unit, units);
}

static struct span popped(size_t unit, size_t units, unsigned state)
{
    fetch_sub(&counts[state - SPAN_DIRTY], units, RELAXED);
    return (struct span){unit, units, state == SPAN_CLEAN};
}

/* Keeps [first, first + units) of a popped span; the rest becomes pending again. */
static struct span cut(struct span span, size_t first, size_t units)
{
    unsigned state = span.is_zero ? SPAN_CLEAN : SPAN_DIRTY;
    size_t end = span.unit + span.units;
    if (first > span.unit)
        pending_put(span.unit, first - span.unit, state);
    if (first + units < end)
        pending_put(first + units, end - first - units, state);
    return (struct span){first, units, span.is_zero};
}

struct span pending_take(size_t units, size_t align_units, unsigned owner)
{
    for (unsigned state = SPAN_DIRTY; state <= SPAN_CLEAN; state++) {
        if (pending_units(state) < units)
            continue;
        struct tagged_stack *stacks = stacks_of(owner, state);
        for (unsigned i = stack_of(units); i < PENDING_STACKS; i++) {
            size_t unit = tagged_pop(&stacks[i], link_of);
            if (unit == 0)
                continue;
            size_t all = region.tags[unit].units, first = region_aligned(unit, align_units);
            if (first + units <= unit + all)
                return cut(popped(unit, all, state), first, units);
            push(owner, state, unit, all);
        }
    }
    return (struct span){0, 0, false};
}

/* Takes any span of an owner. */
static struct span pop_of(unsigned owner, unsigned state)
{
    struct tagged_stack *stacks = stacks_of(owner, state);
    for (unsigned i = PENDING_STACKS; i-- > 0;) {
        size_t unit = tagged_pop(&stacks[i], link_of);
        if (unit != 0)
            return popped(unit, region.tags[unit].units, state);
    }
    return (struct span){0, 0, false};
}

static bool has_pending(unsigned owner, unsigned state)
{
    const struct tagged_stack *stacks = stacks_of(owner, state);
    for (unsigned i = 0; i < PENDING_STACKS; i++)
        if ((uint32_t)load(&stacks[i].top, RELAXED) != 0)
            return true;
    return false;
}

/* When nothing was found, clears the bit and then looks again: spans pushed before are seen, and
 * later pushes set the bit again. */
struct span pending_pop(unsigned state)
{
    for (unsigned i = 0; i < SPAN_OWNER_LIMIT / 64; i++) {
        _Atomic uint64_t *word = &used[state - SPAN_DIRTY][i];
        for (uint64_t left = load(word, ACQUIRE); left != 0; left &= left - 1) {
            uint64_t bit = left & -left;
            unsigned owner = i * 64 + bit_lowest(left);
            struct span span = pop_of(owner, state);
            if (span.unit != 0)
                return span;
            fetch_and(word, ~bit, ACQ_REL);
            if (has_pending(owner, state))
                fetch_or(word, bit, RELEASE);
        }
    }
    return (struct span){0, 0, false};
}

/* Pops spans, the shortest first, puts them before `chain`, and records their state. They stay
 * counted. */
static uint32_t chain_of(unsigned owner, unsigned state, uint32_t chain, size_t *count)
{
    struct tagged_stack *stacks = stacks_of(owner, state);
    size_t most = *count + JOIN_MAX;
    uint32_t unit;
    for (unsigned i = 0; i < PENDING_STACKS; i++)
        while (*count < most && (unit = tagged_pop(&stacks[i], link_of)) != 0) {
            region.tags[unit].previous = state;
            store(link_of(unit), chain, RELAXED);
            chain = unit;
            (*count)++;
        }
    return chain;
}

/* Merges two chains in rising order. */
static uint32_t merged(uint32_t one, uint32_t other)
{
    _Atomic uint32_t first, *end = &first;
    while (one != 0 && other != 0) {
        uint32_t *least = one < other ? &one : &other;
        store(end, *least, RELAXED);
        end = link_of(*least);
        *least = load(end, RELAXED);
    }
    store(end, one != 0 ? one : other, RELAXED);
    return load(&first, RELAXED);
}

/* Takes the first `count` >= 1 off a chain, and sorts them. */
static uint32_t sorted(uint32_t *chain, size_t count)
{
    if (count > 1) {
        uint32_t one = sorted(chain, count / 2);
        return merged(one, sorted(chain, count - count / 2));
    }
    uint32_t unit = *chain;
    *chain = load(link_of(unit), RELAXED);
    store(link_of(unit), 0, RELAXED);
    return unit;
}

/* Merges `behind` into a pending span, which becomes dirty if either is dirty. */
static void absorb_next(struct span_tag *tag, const struct span_tag *behind)
{
    if (tag->previous != behind->previous) {
        uint32_t clean = tag->previous == SPAN_CLEAN ? tag->units : behind->units;
        fetch_add(&counts[0], clean, RELAXED);
        fetch_sub(&counts[1], clean, RELAXED);
        tag->previous = SPAN_DIRTY;
    }
    tag->units += behind->units;
}

void pending_join(unsigned owner)
{
    size_t count = 0;
    uint32_t chain = chain_of(owner, SPAN_DIRTY, 0, &count);
    chain = chain_of(owner, SPAN_CLEAN, chain, &count);
    uint32_t unit = count == 0 ? 0 : sorted(&chain, count), next;
    for (; unit != 0; unit = next) {
        struct span_tag *tag = &region.tags[unit];
        next = load(&tag->next, RELAXED);
        for (; next != 0 && next == unit + tag->units; next = load(link_of(next), RELAXED))
            absorb_next(tag, &region.tags[next]);
        push(owner, tag->previous, unit, tag->units);
    }
}
