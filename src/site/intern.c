/*
 * intern.c: sets of sites, each a table of words with linear probing.
 *
 * A word holds a site's address and its cohort's row; it is written once, by compare-and-swap, and
 * changed once more when the site is retired. Sites of the dynamic linker are in a set that only
 * the slow half looks at: the linker asks for memory before it maps a module, and each such
 * request retires the sites whose module is gone. So no code of a module loaded later can run
 * before the sites that were at its place are retired.
 *
 * Owner: any thread, without a lock. I1: a row other than ROW_OVERFLOW is in one word at most.
 * Steps: docs/protocols/intern.md. Design: docs/design/intern.md
 */
#include "site/intern.h"

#include "base/bits.h"
#include "core/sampled.h"
#include "os/loader.h"

enum {
    LINKER_BITS = 8,
    FAR_BITS = 15,
    ADDRESS_BITS = 48,
    ROW_FIRST = COHORT_FIRST,
    ROW_OVERFLOW = ROW_FIRST + INTERN_SITES_MAX + 1, /* one row among them is COHORT_SAMPLED */
    ROW_NONE = 0,
};
_Static_assert((int)ROW_OVERFLOW < (int)ROW_LIMIT, "each site's row is a bin's");

/* No site's: an address of all ones. */
static const uint64_t retired_word = UINT64_MAX << INTERN_ROW_BITS;

struct site_set {
    _Atomic uint64_t *words;
    uint32_t size;         /* a power of two                   */
    _Atomic uint32_t used; /* words, at most three in four     */
};

_Atomic uint64_t intern_table[1 << INTERN_BITS];
static _Atomic uint64_t linker_words[1 << LINKER_BITS];
static _Atomic uint64_t far_words[1 << FAR_BITS];

static struct site_set near = {.words = intern_table, .size = 1 << INTERN_BITS};
static struct site_set linker = {.words = linker_words, .size = 1 << LINKER_BITS};
static struct site_set far = {.words = far_words, .size = 1 << FAR_BITS}; /* in overflow, all */

static _Atomic uint32_t rows_used;
static _Atomic uint32_t row_spare; /* taken and not needed, or ROW_NONE */
static _Atomic uint64_t own_sites;
static _Atomic uint64_t retired_sites;
static _Atomic uint64_t overflow_sites;

static uint64_t word_of(uintptr_t address, unsigned row)
{
    return (uint64_t)address << INTERN_ROW_BITS | row;
}

static unsigned row_of(uint64_t word)
{
    return (unsigned)(word & ((1 << INTERN_ROW_BITS) - 1));
}

/* The place of an address, or the empty one where it would be; bounded, since a quarter is empty.
 */
static _Atomic uint64_t *probe(const struct site_set *set, uintptr_t address)
{
    size_t mask = set->size - 1, place = address >> CODE_ALIGN_LOG2 & mask;
    for (;; place = (place + 1) & mask) {
        uint64_t word = load(&set->words[place], RELAXED);
        if (word == 0 || word >> INTERN_ROW_BITS == address)
            return &set->words[place];
    }
}

/* The row of an address in the set, or ROW_NONE. */
static unsigned look_up(const struct site_set *set, uintptr_t address)
{
    return row_of(load(probe(set, address), RELAXED));
}

/* I2: enters an address with a row, unless another thread was faster. Returns the row that it has
 * now, or ROW_NONE: the set is full. */
static unsigned enter(struct site_set *set, uintptr_t address, unsigned row)
{
    if (fetch_add(&set->used, 1, RELAXED) >= set->size / 4 * 3) {
        fetch_sub(&set->used, 1, RELAXED);
        return ROW_NONE;
    }
    for (;;) { /* a turn for each site that comes between */
        _Atomic uint64_t *place = probe(set, address);
        uint64_t word = load(place, RELAXED);
        if (word == 0 && compare_swap(place, &word, word_of(address, row), RELAXED, RELAXED)) {
            fetch_add(row == ROW_OVERFLOW ? &overflow_sites : &own_sites, 1, RELAXED);
            return row;
        }
        if (word >> INTERN_ROW_BITS == address) {
            fetch_sub(&set->used, 1, RELAXED);
            return row_of(word);
        }
    }
}

/* I1: a row that nobody had, or ROW_OVERFLOW. */
static unsigned row_take(void)
{
    unsigned spare = exchange(&row_spare, ROW_NONE, RELAXED);
    if (spare != ROW_NONE)
        return spare;
    if (load(&rows_used, RELAXED) >= INTERN_SITES_MAX)
        return ROW_OVERFLOW;
    unsigned number = fetch_add(&rows_used, 1, RELAXED);
    if (number >= INTERN_SITES_MAX) {
        fetch_sub(&rows_used, 1, RELAXED);
        return ROW_OVERFLOW;
    }
    unsigned row = ROW_FIRST + number;
    return row < COHORT_SAMPLED ? row : row + 1;
}

/* Keeps a row that was not needed for the next site; if there is one already it is lost. */
static void row_give_back(unsigned row)
{
    uint32_t none = ROW_NONE;
    if (row != ROW_OVERFLOW)
        compare_swap(&row_spare, &none, row, RELAXED, RELAXED);
}

/* I3: retires the sites that are in no module any more. */
static void retire(void)
{
    for (size_t i = 0; i < near.size; i++) {
        uint64_t word = load(&near.words[i], RELAXED);
        const void *site = (const void *)(uintptr_t)(word >> INTERN_ROW_BITS);
        if (word == 0 || word == retired_word || row_of(word) == ROW_OVERFLOW ||
            os_loader_find(site) != LOADER_NONE)
            continue;
        if (compare_swap(&near.words[i], &word, retired_word, RELAXED, RELAXED))
            fetch_add(&retired_sites, 1, RELAXED);
    }
}

/* Enters a site that is in no set yet. */
static unsigned enter_new(uintptr_t address, enum loader_answer where)
{
    unsigned wanted = where == LOADER_NONE ? ROW_OVERFLOW : row_take();
    unsigned row = enter(where == LOADER_ITSELF ? &linker : &near, address, wanted);
    if (row != wanted)
        row_give_back(wanted);
    if (row == ROW_NONE)
        row = enter(&far, address, ROW_OVERFLOW);
    return row != ROW_NONE ? row : ROW_OVERFLOW;
}

static unsigned find(uintptr_t address)
{
    unsigned row = look_up(&near, address);
    if (likely(row != ROW_NONE))
        return row;
    row = look_up(&far, address);
    if (row != ROW_NONE)
        return row;
    row = look_up(&linker, address);
    bool is_linker = row != ROW_NONE;
    if (!is_linker) {
        enum loader_answer where = os_loader_find((const void *)address);
        is_linker = where == LOADER_ITSELF;
        row = enter_new(address, where);
    }
    if (is_linker)
        retire();
    return row;
}

NOINLINE uint32_t intern_find(const void *site)
{
    uintptr_t address = (uintptr_t)site;
    unsigned row = address >> ADDRESS_BITS == 0 ? find(address) : ROW_OVERFLOW;
    return row * COHORT_ENTRY_BYTES;
}

struct intern_counts intern_counts(void)
{
    return (struct intern_counts){
        .sites = load(&own_sites, RELAXED),
        .retired = load(&retired_sites, RELAXED),
        .overflow = load(&overflow_sites, RELAXED),
    };
}
