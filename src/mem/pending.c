/*
 * pending.c: stacks of spans by owner, state and length.
 *
 * A stack for each length up to EXACT_MAX units, then one a doubling. The stack a span is in says
 * whether it reads as zero; its first tag has its length, and the link.
 *
 * Owner: any thread, lock-free: base/tagged_stack.h. Design: docs/design/spans.md
 */
#include "mem/pending.h"

#include "base/tagged_stack.h"

enum { EXACT_MAX = 32, DOUBLINGS = 24, STACK_COUNT = EXACT_MAX + DOUBLINGS };

struct pending {
    struct tagged_stack stacks[2][STACK_COUNT]; /* dirty, clean */
};

static struct pending nobodys;
static struct pending *owners; /* of owner 1, 2, ... */
static _Atomic size_t counts[2];
static _Atomic uint64_t used[2][SPAN_OWNER_LIMIT / 64]; /* by owner: whether there may be some */

size_t pending_bytes(void)
{
    return (SPAN_OWNER_LIMIT - 1) * sizeof(struct pending);
}

void pending_start_owners(void *memory)
{
    owners = memory;
}

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
    return units <= EXACT_MAX ? (unsigned)units - 1 : EXACT_MAX + bit_highest(units) - 5;
}

static struct tagged_stack *stacks_of(unsigned owner, unsigned state)
{
    struct pending *of = owner == 0 ? &nobodys : &owners[owner - 1];
    return of->stacks[state - SPAN_DIRTY];
}

/* The bit comes after the push: whoever clears it looks at the stacks afterwards. */
static void push(unsigned owner, unsigned state, size_t unit, size_t units)
{
    _Atomic uint64_t *word = &used[state - SPAN_DIRTY][owner / 64];
    uint64_t bit = (uint64_t)1 << owner % 64;
    tagged_push(&stacks_of(owner, state)[stack_of(units)], (uint32_t)unit, link_of);
    if ((load(word, RELAXED) & bit) == 0)
        fetch_or(word, bit, RELEASE);
}

/* Counted before it can be taken, so that the count is never less than there is. */
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

/* Keeps [first, first + units) of a span that was popped; the rest is pending again. */
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
        for (unsigned i = stack_of(units); i < STACK_COUNT; i++) {
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

/* Any of an owner's; says whether there may be more. */
static struct span pop_of(unsigned owner, unsigned state, bool *is_more)
{
    struct tagged_stack *stacks = stacks_of(owner, state);
    *is_more = false;
    for (unsigned i = STACK_COUNT; i-- > 0;) {
        size_t unit = tagged_pop(&stacks[i], link_of);
        *is_more = *is_more || (uint32_t)load(&stacks[i].top, RELAXED) != 0 || unit != 0;
        if (unit != 0)
            return popped(unit, region.tags[unit].units, state);
    }
    return (struct span){0, 0, false};
}

struct span pending_pop(unsigned state)
{
    for (unsigned i = 0; i < SPAN_OWNER_LIMIT / 64; i++) {
        _Atomic uint64_t *word = &used[state - SPAN_DIRTY][i];
        for (uint64_t left = load(word, ACQUIRE); left != 0; left &= left - 1) {
            uint64_t bit = left & -left;
            bool is_more;
            fetch_and(word, ~bit, ACQ_REL);
            struct span span = pop_of(i * 64 + bit_lowest(left), state, &is_more);
            if (is_more)
                fetch_or(word, bit, RELEASE);
            if (span.unit != 0)
                return span;
        }
    }
    return (struct span){0, 0, false};
}
