/*
 * stray.c: bits of blocks that wait for their depot, and the stack of slabs that have some.
 *
 * A stray keeps its slab from becoming wholly free, so whoever has taken a slab's bit may read the
 * slab. A slab may lie in a stack for longer than its strays: then it has none, or those of another
 * slab that has its bookkeeping by now, which are taken as well, and put where the map says.
 *
 * Owner: any thread, lock-free; docs/protocols/stray.md. Design: docs/design/held.md
 */
#include "core/stray.h"

#include "mem/meta.h"

static _Atomic uint32_t *below_of(uint32_t number)
{
    return &((struct slab *)meta_at(number))->below_stray;
}

/* Y2: puts the slab into the stack, unless it is in one. */
static void enlist(struct strays *strays, struct slab *slab)
{
    if (exchange(&slab->has_strays, 1, ACQ_REL) == 0)
        tagged_push(&strays->slabs, meta_number(slab), below_of);
}

bool stray_put(struct strays *strays, struct slab *slab, unsigned block)
{
    uint64_t bit = (uint64_t)1 << block % 64;
    fetch_add(&strays->blocks, 1, RELAXED);
    /* Y1 release: what the program did with the block; pairs with Y4. */
    if ((fetch_or(&slab->strays[block / 64], bit, RELEASE) & bit) != 0) {
        fetch_sub(&strays->blocks, 1, RELAXED);
        return false;
    }
    enlist(strays, slab);
    return true;
}

/* The lowest `want` bits. */
static uint64_t lowest(uint64_t bits, size_t want)
{
    uint64_t left = bits;
    for (size_t i = 0; i < want && left != 0; i++)
        left &= left - 1;
    return bits & ~left;
}

/* Takes a word's, all unless they are more than `want`. */
static size_t take_word(struct slab *slab, size_t word, void **out, size_t want)
{
    size_t taken = 0;
    uint64_t seen;
    while (taken < want && (seen = load(&slab->strays[word], RELAXED)) != 0) {
        uint64_t wanted = lowest(seen, want - taken); /* another thread may take some of them */
        uint64_t bits = wanted & fetch_and(&slab->strays[word], ~wanted, ACQUIRE); /* Y4 */
        for (; bits != 0; bits &= bits - 1) {
            size_t bytes = class_facts[bin_class(region_bin(slab->chunk))].bytes;
            out[taken++] = slab_start(slab) + (word * 64 + bit_lowest(bits)) * bytes;
        }
    }
    return taken;
}

size_t stray_take(struct strays *strays, void **out, size_t want)
{
    size_t taken = 0;
    uint32_t number;
    while (taken == 0 && (number = tagged_pop(&strays->slabs, below_of)) != 0) {
        struct slab *slab = (struct slab *)meta_at(number);
        size_t words = slab_stray_words(slab), word = 0;
        exchange(&slab->has_strays, 0, ACQ_REL); /* Y3: before any bit is looked at */
        for (; word < words && taken < want; word++)
            taken += take_word(slab, word, out + taken, want - taken);
        if (taken == want) /* there may be more */
            enlist(strays, slab);
    }
    if (taken > 0)
        fetch_sub(&strays->blocks, (uint32_t)taken, RELAXED);
    return taken;
}

bool stray_is_one(const struct slab *slab, unsigned block)
{
    return (load(&slab->strays[block / 64], ACQUIRE) >> block % 64 & 1) != 0;
}
