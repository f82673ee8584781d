/*
 * deferred.c: the bits of deferred frees, and the stack of slabs that have some.
 *
 * A deferred free keeps its slab from being wholly free, so the thread that takes a slab's bit may
 * read the slab. A slab may stay in a stack longer than its deferred frees. It then has none, or
 * those of a new slab that reuses its metadata: these are taken too, and go where the chunk map
 * says.
 *
 * Owner: any thread, lock-free; docs/protocols/deferred.md. Design: docs/design/held.md
 */
#include "core/deferred.h"

#include "mem/meta.h"

static _Atomic uint32_t *below_of(uint32_t number)
{
    return &((struct slab *)meta_at(number))->below_deferred;
}

/* Y2: pushes the slab, unless it is in a stack. */
static void enlist(struct deferred *deferred, struct slab *slab)
{
    if (exchange(&slab->has_deferred, 1, ACQ_REL) == 0)
        tagged_push(&deferred->slabs, meta_number(slab), below_of);
}

bool deferred_put(struct deferred *deferred, struct slab *slab, unsigned block)
{
    uint64_t bit = (uint64_t)1 << block % 64;
    fetch_add(&deferred->blocks, 1, RELAXED);
    /* Y1 release: the program's writes to the block; pairs with Y4. */
    if ((fetch_or(&slab->deferred[block / 64], bit, RELEASE) & bit) != 0) {
        fetch_sub(&deferred->blocks, 1, RELAXED);
        return false;
    }
    enlist(deferred, slab);
    return true;
}

/* The lowest `want` of the set bits. */
static uint64_t lowest(uint64_t bits, size_t want)
{
    uint64_t left = bits;
    for (size_t i = 0; i < want && left != 0; i++)
        left &= left - 1;
    return bits & ~left;
}

/* Takes at most `want` deferred frees of one word. */
static size_t take_word(struct slab *slab, size_t word, void **out, size_t want)
{
    size_t taken = 0;
    uint64_t seen;
    while (taken < want && (seen = load(&slab->deferred[word], RELAXED)) != 0) {
        uint64_t wanted = lowest(seen, want - taken); /* another thread may take some first */
        uint64_t bits = wanted & fetch_and(&slab->deferred[word], ~wanted, ACQUIRE); /* Y4 */
        for (; bits != 0; bits &= bits - 1) {
            size_t bytes = class_facts[bin_class(region_bin(slab->chunk))].bytes;
            out[taken++] = slab_start(slab) + (word * 64 + bit_lowest(bits)) * bytes;
        }
    }
    return taken;
}

size_t deferred_take(struct deferred *deferred, void **out, size_t want)
{
    size_t taken = 0;
    uint32_t number;
    while (taken == 0 && (number = tagged_pop(&deferred->slabs, below_of)) != 0) {
        struct slab *slab = (struct slab *)meta_at(number);
        size_t words = slab_deferred_words(slab), word = 0;
        exchange(&slab->has_deferred, 0, ACQ_REL); /* Y3: before any bit is read */
        for (; word < words && taken < want; word++)
            taken += take_word(slab, word, out + taken, want - taken);
        if (taken == want) /* there may be more */
            enlist(deferred, slab);
    }
    if (taken > 0)
        fetch_sub(&deferred->blocks, (uint32_t)taken, RELAXED);
    return taken;
}

bool deferred_holds(const struct slab *slab, unsigned block)
{
    return (load(&slab->deferred[block / 64], ACQUIRE) >> block % 64 & 1) != 0;
}
