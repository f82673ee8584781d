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
    SLOTS = 8,           /* a cache line; bounds the blocks that no request takes */
    KEY_UNITS_BITS = 11, /* of a slot: the length; above it the owner, then the first unit */
    KEY_OWNER_BITS = 11,
    KEY_MASK = (1 << (KEY_OWNER_BITS + KEY_UNITS_BITS)) - 1,
    PUTS_A_STEP = 16, /* puts into known slots that add up to a purge step */
};
_Static_assert(LARGE_CACHE_UNITS_MAX < 1 << KEY_UNITS_BITS, "a slot has a length");
_Static_assert(SPAN_OWNER_LIMIT <= 1 << KEY_OWNER_BITS, "a slot has an owner");

static struct {
    _Alignas(CACHE_LINE_BYTES) _Atomic uint64_t slots[SLOTS]; /* 0: empty */
    _Atomic uint32_t hand;  /* clock hand: the slot that is replaced next */
    _Atomic uint32_t noted; /* slots whose blocks the purger knows */
    uint64_t seen[SLOTS];   /* slots at the purger's last visit */
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

/* Takes a matching block from its slot; 0: none. */
static uint64_t pop(const struct large_request *request)
{
    uint32_t key = (uint32_t)word_of(0, request->owner, request->units);
    for (unsigned i = 0; i < SLOTS; i++) {
        uint64_t word = load(&large_cache.slots[i], RELAXED);
        uintptr_t start = (uintptr_t)region_address(word_unit(word));
        if (((uint32_t)word & KEY_MASK) == key && (start & (request->align - 1)) == 0 &&
            compare_swap(&large_cache.slots[i], &word, 0, ACQUIRE, RELAXED))
            return word;
    }
    return 0;
}

void *large_cache_find(struct large_request request)
{
    uint64_t word = request.units > LARGE_CACHE_UNITS_MAX ? 0 : pop(&request);
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
static void note_put(unsigned slot, size_t bytes)
{
    bool is_known = slot < load(&large_cache.noted, RELAXED);
    if (!is_known)
        store(&large_cache.noted, slot + 1, RELAXED);
    purge_note(is_known ? PURGE_STEP_BYTES / PUTS_A_STEP : bytes, bytes);
}

/* Puts a block into an empty slot, or replaces another block, which is returned; 0: none. */
static uint64_t put(uint64_t word)
{
    for (unsigned i = 0; i < SLOTS; i++) {
        uint64_t empty = 0;
        if (load(&large_cache.slots[i], RELAXED) == 0 &&
            compare_swap(&large_cache.slots[i], &empty, word, RELEASE, RELAXED)) {
            note_put(i, word_units(word) << UNIT_SHIFT);
            return 0;
        }
    }
    uint32_t hand = load(&large_cache.hand, RELAXED);
    store(&large_cache.hand, hand + 1, RELAXED);
    return exchange(&large_cache.slots[hand % SLOTS], word, ACQ_REL);
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

size_t large_cache_drain(bool is_all)
{
    size_t drained = 0;
    for (unsigned i = 0; i < SLOTS; i++) {
        uint64_t word = load(&large_cache.slots[i], RELAXED);
        bool is_due = word != 0 && (is_all || word == large_cache.seen[i]);
        if (!is_all)
            large_cache.seen[i] = word;
        if (is_due && compare_swap(&large_cache.slots[i], &word, 0, ACQUIRE, RELAXED)) {
            store(&large_cache.noted, 0, RELAXED);
            large_release(region_address(word_unit(word)));
            drained++;
        }
    }
    return drained;
}

size_t large_cache_bytes(void)
{
    size_t units = 0;
    for (unsigned i = 0; i < SLOTS; i++)
        units += word_units(load(&large_cache.slots[i], RELAXED));
    return units << UNIT_SHIFT;
}

bool large_cache_drain_for_growth(size_t units)
{
    return large_cache_bytes() >> UNIT_SHIFT >= units && large_cache_drain(true) > 0;
}

const struct watch_fact large_cache_facts[] = {
    FACT_AT("large_cache.slots", large_cache.slots),
    FACT_NUMBER("large_cache.slot_count", SLOTS),
    FACT_NUMBER("large_cache.units_bits", KEY_UNITS_BITS),
    FACT_NUMBER("large_cache.unit_shift", KEY_OWNER_BITS + KEY_UNITS_BITS),
    FACTS_END,
};
