/*
 * shelf.c: the large blocks that were freed last, kept whole for reuse.
 *
 * A slot is one word that says all of its block: where it begins, how long it is, whose it is. So
 * a block is put into a slot, or taken, by one compare-and-swap; nothing is locked, and whoever
 * ends between two steps loses the block it had in hand and no more. The tags say of a block
 * on the shelf that it is free.
 *
 * Owner: any thread, lock-free. Design: docs/design/large.md; steps: docs/protocols/shelf.md
 */
#include "core/shelf.h"

#include "base/bits.h"
#include "core/large.h"
#include "core/mark.h"
#include "core/misuse.h"
#include "core/purge_turn.h"
#include "mem/region.h"
#include "mem/span.h"

enum {
    SLOTS = 8,           /* a cache line. Of blocks that are not asked for again few stay */
    KEY_UNITS_BITS = 11, /* of a slot: the length; above it the owner, and the first unit */
    KEY_OWNER_BITS = 11,
    KEY_MASK = (1 << (KEY_OWNER_BITS + KEY_UNITS_BITS)) - 1,
    PUTS_A_STEP = 16, /* into slots that the purger knows of: its clock goes on */
};
_Static_assert(SHELF_UNITS_MAX < 1 << KEY_UNITS_BITS, "a slot has a length");
_Static_assert(SPAN_OWNER_LIMIT <= 1 << KEY_OWNER_BITS, "a slot has an owner");

static struct {
    _Alignas(CACHE_LINE_BYTES) _Atomic uint64_t slots[SLOTS]; /* 0: empty */
    _Atomic uint32_t hand;  /* the slot that a full shelf puts the next block into */
    _Atomic uint32_t noted; /* slots whose blocks the purger was told of */
    uint64_t seen[SLOTS];   /* what the purger saw there when it looked last */
} shelf;

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

/* A block that is wished for, taken off the shelf; 0: there is none. */
static uint64_t pop(const struct shelf_wish *wish)
{
    uint32_t key = (uint32_t)word_of(0, wish->owner, wish->units);
    for (unsigned i = 0; i < SLOTS; i++) {
        uint64_t word = load(&shelf.slots[i], RELAXED);
        uintptr_t start = (uintptr_t)region_address(word_unit(word));
        if (((uint32_t)word & KEY_MASK) == key && (start & (wish->align - 1)) == 0 &&
            compare_swap(&shelf.slots[i], &word, 0, ACQUIRE, RELAXED))
            return word;
    }
    return 0;
}

void *shelf_find(struct shelf_wish wish)
{
    uint64_t word = wish.units > SHELF_UNITS_MAX ? 0 : pop(&wish);
    if (word == 0)
        return NULL;
    void *block = region_address(word_unit(word));
    if (unlikely(!block_unmark(block)) && !block_is_excused(block))
        misuse_report_spoiled(block, word_units(word) << UNIT_SHIFT);
    large_take_up(block);
    return block;
}

/* A slot that had no block since the last look is told to the purger as freed; of the others only
 * that time goes on. Threads may each forget what the other told. */
static void note_put(unsigned slot, size_t bytes)
{
    bool is_known = slot < load(&shelf.noted, RELAXED);
    if (!is_known)
        store(&shelf.noted, slot + 1, RELAXED);
    purge_note(is_known ? PURGE_STEP_BYTES / PUTS_A_STEP : bytes, bytes);
}

/* Puts a block into an empty slot, or in place of another one, which is returned; 0: none. */
static uint64_t put(uint64_t word)
{
    for (unsigned i = 0; i < SLOTS; i++) {
        uint64_t empty = 0;
        if (load(&shelf.slots[i], RELAXED) == 0 &&
            compare_swap(&shelf.slots[i], &empty, word, RELEASE, RELAXED)) {
            note_put(i, word_units(word) << UNIT_SHIFT);
            return 0;
        }
    }
    uint32_t hand = load(&shelf.hand, RELAXED);
    store(&shelf.hand, hand + 1, RELAXED);
    return exchange(&shelf.slots[hand % SLOTS], word, ACQ_REL);
}

bool shelf_give(void *block)
{
    if (!large_lay_aside(block))
        return false;
    size_t units = large_length(block);
    if (units > SHELF_UNITS_MAX) {
        large_release(block);
        return true;
    }
    block_mark(block);
    uint64_t other = put(word_of(region_unit(block), large_owner(block), units));
    if (other != 0)
        large_release(region_address(word_unit(other)));
    return true;
}

size_t shelf_drain(bool is_all)
{
    size_t drained = 0;
    for (unsigned i = 0; i < SLOTS; i++) {
        uint64_t word = load(&shelf.slots[i], RELAXED);
        bool is_due = word != 0 && (is_all || word == shelf.seen[i]);
        if (!is_all)
            shelf.seen[i] = word;
        if (is_due && compare_swap(&shelf.slots[i], &word, 0, ACQUIRE, RELAXED)) {
            store(&shelf.noted, 0, RELAXED);
            large_release(region_address(word_unit(word)));
            drained++;
        }
    }
    return drained;
}

size_t shelf_bytes(void)
{
    size_t units = 0;
    for (unsigned i = 0; i < SLOTS; i++)
        units += word_units(load(&shelf.slots[i], RELAXED));
    return units << UNIT_SHIFT;
}

bool shelf_drain_for_growth(size_t units)
{
    return shelf_bytes() >> UNIT_SHIFT >= units && shelf_drain(true) > 0;
}

const struct watch_fact shelf_facts[] = {
    FACT_AT("shelf.slots", shelf.slots),
    FACT_NUMBER("shelf.slot_count", SLOTS),
    FACT_NUMBER("shelf.units_bits", KEY_UNITS_BITS),
    FACT_NUMBER("shelf.unit_shift", KEY_OWNER_BITS + KEY_UNITS_BITS),
    FACTS_END,
};
