/*
 * intern.c: sets of sites, each a table of words with linear probing.
 *
 * A word holds a site's address and its cohort's row; it is written once, by compare-and-swap, and
 * changed once more when the site is retired. Sites of the dynamic linker are in a set that only
 * the slow half searches: the linker asks for memory before it maps a module, and each such request
 * retires the sites of unloaded modules. So a site is retired before code of a later module can run
 * at its address.
 *
 * Owner: any thread, without a lock. I1: a row other than ROW_OVERFLOW is in one word at most.
 * Steps: docs/protocols/intern.md. Design: docs/design/intern.md
 */
#include "site/intern.h"

#include "base/bits.h"
#include "core/rows.h"
#include "os/loader.h"
#include "site/tag.h"
#include "site/wrapper.h"

enum {
    WORD_ROW_BITS = 16,
    LINKER_BITS = 8,
    FAR_BITS = 15,
    TAG_BITS = 12,
    TAG_PROBES_MAX = 64,
    ADDRESS_BITS = 48,
    ROW_FIRST = COHORT_FIRST,
    ROW_OVERFLOW = ROW_FIRST + INTERN_SITES_MAX + 1, /* one row below is COHORT_SAMPLED */
    ROW_NONE = 0,
};
_Static_assert((int)ROW_OVERFLOW < (int)ROW_LIMIT, "each site's row is a bin's");

/* An address of all ones, which is no site's. */
static const uint64_t retired_word = UINT64_MAX << WORD_ROW_BITS;
static const uintptr_t retired_site = UINTPTR_MAX;

struct site_set {
    _Atomic uint64_t *words;
    uint32_t size;         /* a power of two                   */
    _Atomic uint32_t used; /* words, at most three in four     */
};

static _Atomic uint64_t near_words[1 << INTERN_BITS];
static _Atomic uint64_t linker_words[1 << LINKER_BITS];
static _Atomic uint64_t far_words[1 << FAR_BITS];

static struct site_set near = {.words = near_words, .size = 1 << INTERN_BITS};
static struct site_set linker = {.words = linker_words, .size = 1 << LINKER_BITS};
static struct site_set far = {.words = far_words, .size = 1 << FAR_BITS}; /* all in overflow */

struct intern_table intern_known;
static struct intern_table nothing_known; /* not const: that would take space in the file */
const struct intern_table *_Atomic intern_quick = &nothing_known;

struct tag_row {
    _Atomic uint64_t tag;
    _Atomic uint32_t row;
};
static struct tag_row tag_rows[1 << TAG_BITS];

/* By row: its word in `near`, so that retire() visits rows and not all places. */
static _Atomic uint64_t *_Atomic near_of_row[ROW_LIMIT];

static _Atomic uint32_t rows_used;
static _Atomic uint32_t row_spare; /* taken but not needed, or ROW_NONE */
static _Atomic uint64_t own_sites;
static _Atomic uint64_t retired_sites;
static _Atomic uint64_t overflow_sites;

static uint64_t word_of(uintptr_t address, unsigned row)
{
    return (uint64_t)address << WORD_ROW_BITS | row;
}

static unsigned row_of(uint64_t word)
{
    return (unsigned)(word & ((1 << WORD_ROW_BITS) - 1));
}

/* Place of an address, or the empty place where it would be. Ends, since a quarter is empty. */
static _Atomic uint64_t *probe(const struct site_set *set, uintptr_t address)
{
    size_t mask = set->size - 1, place = address >> CODE_ALIGN_LOG2 & mask;
    for (;; place = (place + 1) & mask) {
        uint64_t word = load(&set->words[place], RELAXED);
        if (word == 0 || word >> WORD_ROW_BITS == address)
            return &set->words[place];
    }
}

/* Row of an address in the set, or ROW_NONE. */
static unsigned look_up(const struct site_set *set, uintptr_t address)
{
    return row_of(load(probe(set, address), RELAXED));
}

/* I2: enters an address with a row, unless another thread is faster. Returns the address's row, or
 * ROW_NONE: the set is full. */
static unsigned enter(struct site_set *set, uintptr_t address, unsigned row)
{
    if (fetch_add(&set->used, 1, RELAXED) >= set->size / 4 * 3) {
        fetch_sub(&set->used, 1, RELAXED);
        return ROW_NONE;
    }
    for (;;) { /* one turn for each site that another thread enters first */
        _Atomic uint64_t *place = probe(set, address);
        uint64_t word = load(place, RELAXED);
        /* Before the word: retire() must not miss a word, even if this thread stops here. */
        if (set == &near)
            store(&near_of_row[row], place, RELAXED);
        if (word == 0 && compare_swap(place, &word, word_of(address, row), RELEASE, RELAXED)) {
            fetch_add(row == ROW_OVERFLOW ? &overflow_sites : &own_sites, 1, RELAXED);
            return row;
        }
        if (word >> WORD_ROW_BITS == address) {
            fetch_sub(&set->used, 1, RELAXED);
            return row_of(word);
        }
    }
}

/* I1: takes a row that no site has had, or ROW_OVERFLOW. */
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

/* Keeps an unneeded row for the next site. A second one is lost. */
static void row_return(unsigned row)
{
    uint32_t none = ROW_NONE;
    if (row != ROW_OVERFLOW)
        compare_swap(&row_spare, &none, row, RELAXED, RELAXED);
}

/* I5: claims a place in intern_known for an address, by compare-and-swap. SIZE_MAX: others have
 * both. */
static size_t claim(uintptr_t address, uintptr_t claimant)
{
    size_t place = intern_place((const void *)address);
    for (unsigned tries = 0; tries < 2; tries++, place = intern_other_place(place)) {
        uintptr_t found = 0;
        if (compare_swap(&intern_known.sites[place], &found, claimant, RELAXED, RELAXED) ||
            found == address)
            return place;
    }
    return SIZE_MAX;
}

/* Publishes the row of a site in `near` to requests. */
static void publish_row(uintptr_t address, unsigned row)
{
    size_t place = claim(address, address);
    if (place != SIZE_MAX)
        store(&intern_known.offsets[place], row * COHORT_ENTRY_BYTES, RELAXED);
}

/* I3: retires the site of a word in `near`, unless another thread does. I5b: a thread about to
 * publish the site then finds no place. */
static void retire_at(_Atomic uint64_t *place, uint64_t word)
{
    uintptr_t address = word >> WORD_ROW_BITS;
    if (!compare_swap(place, &word, retired_word, RELAXED, RELAXED))
        return;
    fetch_add(&retired_sites, 1, RELAXED);
    size_t known = claim(address, retired_site);
    bool is_published = known != SIZE_MAX &&
                        exchange(&intern_known.sites[known], retired_site, RELAXED) == address;
    if (!is_published)
        claim(address, retired_site);
}

/* Retires the sites of unloaded modules. */
static void retire(void)
{
    wrapper_forget_unloaded();
    unsigned end = ROW_FIRST + load(&rows_used, RELAXED) + 1; /* rows leave out COHORT_SAMPLED */
    for (unsigned row = ROW_FIRST; row < end; row++) {
        _Atomic uint64_t *place = load(&near_of_row[row], RELAXED);
        uint64_t word = place != NULL ? load(place, RELAXED) : 0;
        const void *site = (const void *)(uintptr_t)(word >> WORD_ROW_BITS);
        if (row_of(word) == row && os_loader_find(site) == LOADER_NONE)
            retire_at(place, word);
    }
}

void intern_retire(const void *site)
{
    _Atomic uint64_t *place = probe(&near, (uintptr_t)site);
    uint64_t word = load(place, RELAXED);
    if (word != 0 && row_of(word) != ROW_OVERFLOW)
        retire_at(place, word);
}

void intern_allow_quick(bool is_allowed)
{
    store(&intern_quick, is_allowed ? &intern_known : &nothing_known, RELAXED);
}

/* Row of a tag (site/tag.h), which has more bits than a word has room for. I4: each thread that
 * finds the tag without a row offers one; one thread wins. */
static unsigned find_tag(uint64_t tag)
{
    for (unsigned probes = 0; probes < TAG_PROBES_MAX; probes++) {
        struct tag_row *at = &tag_rows[(tag + probes) % (1 << TAG_BITS)];
        uint64_t found = 0;
        if (!compare_swap(&at->tag, &found, tag, RELAXED, RELAXED) && found != tag)
            continue;
        uint32_t row = load(&at->row, RELAXED);
        if (row != ROW_NONE)
            return row;
        unsigned wanted = row_take();
        if (!compare_swap(&at->row, &row, wanted, RELAXED, RELAXED)) {
            row_return(wanted);
            return row;
        }
        fetch_add(wanted == ROW_OVERFLOW ? &overflow_sites : &own_sites, 1, RELAXED);
        return wanted;
    }
    return ROW_OVERFLOW;
}

/* Enters a site that is in no set yet. */
static unsigned enter_new(uintptr_t address, enum loader_answer where)
{
    unsigned wanted = where == LOADER_NONE ? ROW_OVERFLOW : row_take();
    unsigned row = enter(where == LOADER_ITSELF ? &linker : &near, address, wanted);
    if (row != wanted)
        row_return(wanted);
    if (row != ROW_NONE && where != LOADER_ITSELF)
        publish_row(address, row);
    if (row == ROW_NONE)
        row = enter(&far, address, ROW_OVERFLOW);
    return row != ROW_NONE ? row : ROW_OVERFLOW;
}

static unsigned find(uintptr_t address)
{
    unsigned row = look_up(&near, address);
    if (likely(row != ROW_NONE)) {
        publish_row(address, row);
        return row;
    }
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
    unsigned row = site_is_tag(site)              ? find_tag(address)
                   : address >> ADDRESS_BITS == 0 ? find(address)
                                                  : ROW_OVERFLOW;
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

const struct watch_fact intern_facts[] = {
    FACT_AT("intern.overflow", overflow_sites),
    FACTS_END,
};
