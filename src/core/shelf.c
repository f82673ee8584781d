/*
 * shelf.c: a few freed large blocks of each length and home, kept for reuse.
 *
 * A slot is one word that says all of its block: where it begins, how long it is, whose it is. So
 * a block is put into an empty slot, or taken, by one compare-and-swap; nothing is locked, and
 * whoever ends between two steps loses the block it had in hand and no more. The map says of a
 * block on a shelf that it is free.
 *
 * A set has a shelf for each length up to LARGE_SHORT_UNITS, then EIGHTHS a doubling. A thread
 * looks at its home's set first, then at the others.
 *
 * Owner: any thread, lock-free. Invariant H1: while nobody works, a shelf with a block is `filled`.
 * Design: docs/design/large.md; steps: docs/protocols/shelf.md
 */
#include "core/shelf.h"

#include "base/bits.h"
#include "core/home.h"
#include "core/large.h"
#include "core/mark.h"
#include "core/misuse.h"
#include "core/purge.h"
#include "mem/region.h"
#include "mem/span.h"

enum {
    SLOTS = 8, /* of a shelf: a cache line */
    EIGHTHS = 8,
    SHELVES = LARGE_SHORT_UNITS + 4 * EIGHTHS + 1, /* up to SHELF_UNITS_MAX */
    WORDS = (SHELVES + 63) / 64,
    KEY_UNITS_BITS = 11, /* of a slot: the length; above it the owner, and the first unit */
    KEY_OWNER_BITS = 11,
    GROWTH_SHARE = 16, /* of the region, on shelves when it would grow: `bench/rust`, json */
    PUTS_A_STEP = 64,  /* of blocks that a set had room for before: the purger's clock goes on */
};
_Static_assert(SHELF_UNITS_MAX == LARGE_SHORT_UNITS << 4, "the last shelf is of this length alone");
_Static_assert(SHELF_UNITS_MAX < 1 << KEY_UNITS_BITS, "a slot has a length");
_Static_assert(SPAN_OWNER_LIMIT <= 1 << KEY_OWNER_BITS, "a slot has an owner");

struct shelf {
    _Atomic uint64_t slots[SLOTS]; /* 0: empty */
};

/* The shelves of a home. */
static struct shelf_set {
    /* Shelves that may have blocks; that were touched since the purger looked last. */
    _Alignas(2 * CACHE_LINE_BYTES) _Atomic uint64_t filled[WORDS];
    _Atomic uint64_t touched[WORDS];
    _Atomic uint32_t puts;
    _Atomic uint8_t noted[SHELVES]; /* slots whose blocks the purger was told of */
    _Alignas(CACHE_LINE_BYTES) struct shelf shelves[SHELVES];
} sets[HOME_LIMIT];

static size_t shelf_of(size_t units)
{
    if (units <= LARGE_SHORT_UNITS)
        return units - 1;
    unsigned top = bit_highest(units);
    return LARGE_SHORT_UNITS + (top - bit_highest(LARGE_SHORT_UNITS)) * EIGHTHS +
           (units >> (top - 3) & (EIGHTHS - 1));
}

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

/* The longest block that a request for `units` is given. Of the very long ones few are of one
 * length, and much would be lost. */
static size_t longest_given(size_t units)
{
    if (units <= LARGE_SHORT_UNITS)
        return large_units_given(units);
    return size_min(units + units / EIGHTHS, SHELF_UNITS_MAX);
}

/* A wish as slots are compared with it: `least` is the key of the shortest block that will do. */
struct wished {
    uint32_t least, range;
    uintptr_t align_mask;
    size_t first, end; /* shelves */
};

static struct wished wished_of(struct shelf_wish wish)
{
    size_t least = wish.room == 0 ? wish.units : wish.room;
    size_t longest = wish.room == 0 ? longest_given(wish.units) : wish.room_most;
    return (struct wished){
        .least = (uint32_t)word_of(0, wish.owner, least),
        .range = (uint32_t)(longest - least),
        .align_mask = wish.align - 1,
        .first = shelf_of(least),
        .end = shelf_of(longest),
    };
}

ALWAYS_INLINE bool is_wished(uint64_t word, const struct wished *wished)
{
    uint32_t key = (uint32_t)word & (uint32_t)bits_below(KEY_OWNER_BITS + KEY_UNITS_BITS);
    return key - wished->least <= wished->range &&
           ((uintptr_t)region_address(word_unit(word)) & wished->align_mask) == 0;
}

static uint64_t bit_of(size_t at)
{
    return (uint64_t)1 << at % 64;
}

static void set_bit(_Atomic uint64_t *words, size_t at)
{
    if ((load(&words[at / 64], SEQ_CST) & bit_of(at)) == 0)
        fetch_or(&words[at / 64], bit_of(at), SEQ_CST);
}

static bool has_blocks(const struct shelf *shelf)
{
    uint64_t any = 0;
    for (unsigned i = 0; i < SLOTS; i++)
        any |= load(&shelf->slots[i], SEQ_CST);
    return any != 0;
}

/* A shelf was found empty. Who puts a block there meanwhile sets the bit again, or is seen. */
static void note_empty(struct shelf_set *set, size_t at)
{
    fetch_and(&set->filled[at / 64], ~bit_of(at), SEQ_CST);
    if (has_blocks(&set->shelves[at]))
        set_bit(set->filled, at);
}

/* The first shelf from `at` on that may have blocks, or SHELVES. */
static size_t next_filled(const struct shelf_set *set, size_t at)
{
    for (; at < SHELVES; at = (at / 64 + 1) * 64) {
        uint64_t bits = load(&set->filled[at / 64], RELAXED) >> at % 64;
        if (bits != 0)
            return at + bit_lowest(bits);
    }
    return SHELVES;
}

/* The word of a block that is wished for, taken off the shelf; 0: there is none. */
ALWAYS_INLINE uint64_t shelf_pop(struct shelf *shelf, const struct wished *wished)
{
    for (unsigned i = 0; i < SLOTS; i++) {
        uint64_t word = load(&shelf->slots[i], RELAXED);
        if (is_wished(word, wished) && compare_swap(&shelf->slots[i], &word, 0, ACQUIRE, RELAXED))
            return word;
    }
    return 0;
}

static uint64_t set_pop(struct shelf_set *set, const struct wished *wished)
{
    for (size_t at = next_filled(set, wished->first); at <= wished->end;
         at = next_filled(set, at + 1)) {
        uint64_t word = shelf_pop(&set->shelves[at], wished);
        if (word != 0) {
            set_bit(set->touched, at);
            return word;
        }
        if (!has_blocks(&set->shelves[at]))
            note_empty(set, at);
    }
    return 0;
}

/* The thread's own set first, then the others in turn. */
static struct shelf_set *set_after(unsigned count)
{
    unsigned at = of_thread.home + count;
    return &sets[at < home_count ? at : at - home_count];
}

void *shelf_find(struct shelf_wish wish)
{
    uint64_t word = 0;
    if (wish.units > SHELF_UNITS_MAX)
        return NULL;
    struct wished wished = wished_of(wish);
    for (unsigned i = 0; word == 0 && i < home_count; i++)
        word = set_pop(set_after(i), &wished);
    if (word == 0)
        return NULL;
    void *block = region_address(word_unit(word));
    if (unlikely(!block_unmark(block)) && !block_is_excused(block))
        misuse_report_spoiled(block, word_units(word) << UNIT_SHIFT);
    large_take_up(block, wish.units);
    return block;
}

/* A slot that had no block since the last look is told to the purger as freed; of the others only
 * that time goes on. Threads of one home may each forget what the other told. */
static void note_put(struct shelf_set *set, size_t at, unsigned slot, size_t units)
{
    uint32_t puts = load(&set->puts, RELAXED) + 1;
    if (slot >= load(&set->noted[at], RELAXED)) {
        store(&set->noted[at], (uint8_t)(slot + 1), RELAXED);
        purge_note(units << UNIT_SHIFT, units << UNIT_SHIFT);
        return;
    }
    store(&set->puts, puts, RELAXED);
    if (puts % PUTS_A_STEP == 0)
        purge_note(PURGE_STEP_BYTES, units << UNIT_SHIFT);
}

static bool set_push(struct shelf_set *set, size_t at, uint64_t word)
{
    struct shelf *shelf = &set->shelves[at];
    for (unsigned i = 0; i < SLOTS; i++) {
        uint64_t empty = 0;
        if (load(&shelf->slots[i], RELAXED) == 0 &&
            compare_swap(&shelf->slots[i], &empty, word, SEQ_CST, RELAXED)) {
            set_bit(set->filled, at);
            set_bit(set->touched, at);
            note_put(set, at, i, word_units(word));
            return true;
        }
    }
    return false;
}

bool shelf_give(void *block)
{
    if (!large_lay_aside(block))
        return false;
    size_t units = large_length(block);
    bool is_put = false;
    if (units <= SHELF_UNITS_MAX) {
        block_mark(block);
        uint64_t word = word_of(region_unit(block), large_owner(block), units);
        for (unsigned i = 0; !is_put && i < home_count; i++)
            is_put = set_push(set_after(i), shelf_of(units), word);
    }
    if (!is_put)
        large_release(block);
    return true;
}

static size_t drain_shelf(struct shelf_set *set, size_t at)
{
    size_t drained = 0;
    fetch_and(&set->filled[at / 64], ~bit_of(at), SEQ_CST); /* before the slots: H1 */
    store(&set->noted[at], 0, RELAXED);
    for (unsigned i = 0; i < SLOTS; i++) {
        uint64_t word = exchange(&set->shelves[at].slots[i], 0, SEQ_CST);
        if (word == 0)
            continue;
        large_release(region_address(word_unit(word)));
        drained++;
    }
    return drained;
}

static size_t drain_set(struct shelf_set *set, bool is_all)
{
    size_t drained = 0;
    for (unsigned word = 0; word < WORDS; word++) {
        uint64_t kept = is_all ? 0 : exchange(&set->touched[word], 0, RELAXED);
        uint64_t bits = load(&set->filled[word], RELAXED) & ~kept;
        for (; bits != 0; bits &= bits - 1)
            drained += drain_shelf(set, word * 64 + bit_lowest(bits));
    }
    return drained;
}

size_t shelf_drain(bool is_all)
{
    size_t drained = 0;
    for (unsigned i = 0; i < home_count; i++)
        drained += drain_set(&sets[i], is_all);
    return drained;
}

static size_t count_units(const struct shelf_set *set)
{
    size_t units = 0;
    for (size_t at = next_filled(set, 0); at < SHELVES; at = next_filled(set, at + 1))
        for (unsigned i = 0; i < SLOTS; i++)
            units += word_units(load(&set->shelves[at].slots[i], RELAXED));
    return units;
}

/* As far as it can be read while others work. */
static size_t units_shelved(void)
{
    size_t units = 0;
    for (unsigned i = 0; i < home_count; i++)
        units += count_units(&sets[i]);
    return units;
}

bool shelf_drain_for_growth(size_t units)
{
    size_t held = units_shelved();
    return held >= units && held >= load(&region.units, RELAXED) / GROWTH_SHARE &&
           shelf_drain(true) > 0;
}

size_t shelf_bytes(void)
{
    return units_shelved() << UNIT_SHIFT;
}

const struct watch_fact shelf_facts[] = {
    FACT_AT("shelf.sets", sets),
    FACT_NUMBER("shelf.set_count", HOME_LIMIT),
    FACT_NUMBER("shelf.set_bytes", sizeof(struct shelf_set)),
    FACT_NUMBER("shelf.slots", offsetof(struct shelf_set, shelves)),
    FACT_NUMBER("shelf.slot_count", SHELVES *SLOTS),
    FACT_NUMBER("shelf.units_bits", KEY_UNITS_BITS),
    FACT_NUMBER("shelf.unit_shift", KEY_OWNER_BITS + KEY_UNITS_BITS),
    FACTS_END,
};
