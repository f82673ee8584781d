/*
 * large_cache.c: the large cache: the large blocks that were freed last, kept whole for reuse.
 *
 * A slot is one word: first unit, owner and length of its block. One compare-and-swap puts a block
 * into a slot or takes it; nothing is locked, and a thread that ends between two steps loses only
 * the block in its hand. The tags say that a cached block is free.
 *
 * Owner: any thread, lock-free. Design: docs/design/large.md; steps: docs/protocols/large-cache.md
 */
#include "core/large_cache.h"

#include "base/bits.h"
#include "core/large.h"
#include "core/mark.h"
#include "core/misuse.h"
#include "core/purge_turn.h"
#include "mem/region.h"
#include "mem/span.h"

enum {
    SETS = 9,             /* one for any block, eight for short ones */
    SLOTS = 8,            /* of a set: a cache line; bounds the blocks that no request takes */
    SHORT_UNITS_MAX = 16, /* 128 KiB */
    KEY_UNITS_BITS = 11,  /* of a slot: the length; above it the owner, then the first unit */
    KEY_OWNER_BITS = 11,
    KEY_MASK = (1 << (KEY_OWNER_BITS + KEY_UNITS_BITS)) - 1,
    PUTS_A_STEP = 16, /* puts into known slots that add up to a purge step */
};
_Static_assert(LARGE_CACHE_UNITS_MAX < 1 << KEY_UNITS_BITS, "a slot has a length");
_Static_assert(SPAN_OWNER_LIMIT <= 1 << KEY_OWNER_BITS, "a slot has an owner");

struct large_set {
    _Alignas(CACHE_LINE_BYTES) _Atomic uint64_t slots[SLOTS]; /* 0: empty */
};

struct large_set_books {
    _Alignas(CACHE_LINE_BYTES) _Atomic size_t units; /* in the slots; 0 for the first set */
    _Atomic uint32_t hand;                           /* clock hand: what is replaced next */
    _Atomic uint32_t noted;                          /* slots whose blocks the purger knows */
    uint64_t seen[SLOTS];                            /* slots at the purger's last visit */
};

/* The first set is for any block. Each other one is for short blocks of two lengths, between used
 * units: in the spans, such a block would also wait for a request of about its length. */
static struct {
    struct large_set sets[SETS];
    struct large_set_books books[SETS];
} large_cache;

static uint64_t word_of(size_t unit, unsigned owner, size_t units)
{
    return ((uint64_t)unit << KEY_OWNER_BITS | owner) << KEY_UNITS_BITS | units;
}

static size_t word_unit(uint64_t word)
{
    return (size_t)(word >> (KEY_OWNER_BITS + KEY_UNITS_BITS));
}

static size_t word_units(uint64_t word)
{
    return (size_t)word & bits_below(KEY_UNITS_BITS);
}

/* Where blocks of a length may lie, besides the first set. */
static unsigned set_of(size_t units)
{
    return units > SHORT_UNITS_MAX ? 0 : 1 + (unsigned)units % (SETS - 1);
}

/* Where a freed block goes: beside a free span to the first set, which soon replaces it, so that
 * the two become one. */
static unsigned set_for(size_t unit, size_t units)
{
    unsigned set = set_of(units);
    return set != 0 && (span_is_listed(unit + units) || span_is_listed(unit - 1)) ? 0 : set;
}

/* Count a block that comes to a slot or has left it. A thread that ends in between loses the block,
 * too. The first set is summed instead: an atomic step is a tenth of a pair of calls. */
static void count_in(unsigned set, uint64_t word)
{
    if (set != 0)
        fetch_add(&large_cache.books[set].units, word_units(word), RELAXED);
}

static void count_out(unsigned set, uint64_t word)
{
    if (set != 0)
        fetch_sub(&large_cache.books[set].units, word_units(word), RELAXED);
}

/* Takes a matching block from a set; 0: none. */
static uint64_t pop(unsigned index, const struct large_request *request)
{
    struct large_set *set = &large_cache.sets[index];
    uint32_t key = (uint32_t)word_of(0, request->owner, request->units);
    for (unsigned i = 0; i < SLOTS; i++) {
        uint64_t word = load(&set->slots[i], RELAXED);
        uintptr_t start = (uintptr_t)region_address(word_unit(word));
        if (((uint32_t)word & KEY_MASK) == key && (start & (request->align - 1)) == 0 &&
            compare_swap(&set->slots[i], &word, 0, ACQUIRE, RELAXED)) {
            count_out(index, word);
            return word;
        }
    }
    return 0;
}

void *large_cache_find(struct large_request request)
{
    if (request.units > LARGE_CACHE_UNITS_MAX)
        return NULL;
    unsigned set = set_of(request.units);
    uint64_t word = pop(set, &request);
    if (word == 0 && set != 0)
        word = pop(0, &request);
    if (word == 0)
        return NULL;
    void *block = region_address(word_unit(word));
    if (unlikely(!block_unmark(block)) && !block_is_excused(block))
        misuse_report_spoiled(block, word_units(word) << UNIT_SHIFT);
    large_revive(block);
    return block;
}

/* Tells the purger about a put. Only the first block in a slot since the last drain counts as
 * freed; others advance the purger's clock. Threads may overwrite each other's `noted`. */
static void note_put(struct large_set_books *books, unsigned slot, size_t bytes)
{
    bool is_known = slot < load(&books->noted, RELAXED);
    if (!is_known)
        store(&books->noted, slot + 1, RELAXED);
    purge_note(is_known ? PURGE_STEP_BYTES / PUTS_A_STEP : bytes, bytes);
}

/* Puts a block into an empty slot of its set, or replaces another block, which is returned; 0:
 * none. */
static uint64_t put(uint64_t word)
{
    unsigned index = set_for(word_unit(word), word_units(word));
    struct large_set *set = &large_cache.sets[index];
    struct large_set_books *books = &large_cache.books[index];
    count_in(index, word);
    for (unsigned i = 0; i < SLOTS; i++) {
        uint64_t empty = 0;
        if (load(&set->slots[i], RELAXED) == 0 &&
            compare_swap(&set->slots[i], &empty, word, RELEASE, RELAXED)) {
            note_put(books, i, word_units(word) << UNIT_SHIFT);
            return 0;
        }
    }
    uint32_t hand = load(&books->hand, RELAXED);
    store(&books->hand, hand + 1, RELAXED);
    uint64_t other = exchange(&set->slots[hand % SLOTS], word, ACQ_REL);
    count_out(index, other);
    return other;
}

bool large_cache_put(void *block)
{
    if (!large_claim(block))
        return false;
    size_t units = large_length(block);
    if (units > LARGE_CACHE_UNITS_MAX) {
        large_release(block);
        return true;
    }
    block_mark(block);
    uint64_t other = put(word_of(region_unit(block), large_owner(block), units));
    if (other != 0)
        large_release(region_address(word_unit(other)));
    return true;
}

static size_t drain_set(unsigned index, bool is_all)
{
    struct large_set *set = &large_cache.sets[index];
    struct large_set_books *books = &large_cache.books[index];
    size_t drained = 0;
    for (unsigned i = 0; i < SLOTS; i++) {
        uint64_t word = load(&set->slots[i], RELAXED);
        bool is_due = word != 0 && (is_all || word == books->seen[i]);
        if (!is_all)
            books->seen[i] = word;
        if (is_due && compare_swap(&set->slots[i], &word, 0, ACQUIRE, RELAXED)) {
            count_out(index, word);
            store(&books->noted, 0, RELAXED);
            large_release(region_address(word_unit(word)));
            drained++;
        }
    }
    return drained;
}

size_t large_cache_drain(bool is_all)
{
    size_t drained = 0;
    for (unsigned i = 0; i < SETS; i++)
        drained += drain_set(i, is_all);
    return drained;
}

size_t large_cache_bytes(void)
{
    size_t units = 0;
    for (unsigned i = 0; i < SLOTS; i++)
        units += word_units(load(&large_cache.sets[0].slots[i], RELAXED));
    for (unsigned i = 1; i < SETS; i++)
        units += load(&large_cache.books[i].units, RELAXED);
    return units << UNIT_SHIFT;
}

bool large_cache_drain_for_growth(size_t units)
{
    return large_cache_bytes() >> UNIT_SHIFT >= units && large_cache_drain(true) > 0;
}

const struct watch_fact large_cache_facts[] = {
    FACT_AT("large_cache.slots", large_cache.sets),
    FACT_NUMBER("large_cache.slot_count", (SETS * SLOTS)),
    FACT_NUMBER("large_cache.units_bits", KEY_UNITS_BITS),
    FACT_NUMBER("large_cache.unit_shift", KEY_OWNER_BITS + KEY_UNITS_BITS),
    FACTS_END,
};
