/*
 * wrapper.c: decides which sites are wrappers, and finds their callers.
 *
 * Two tables. `seen` has, for addresses that requests return to, a sketch of their callers and
 * sizes: marks of the first four different ones, so that a sketch never counts too many.
 * `wrapper_facts` tells where a known wrapper keeps its return address; requests read it. A fact is
 * used only after a walk of the stack agreed with it, and is proved again now and then; a fact that
 * disagrees is dropped. A wrong fact gives a wrong site, never a fault (os/stack.h). Where sites
 * must be exact, only the unwind tables make a fact: the frame has one size, or each request needs
 * a walk.
 *
 * Owner: any thread, lock-free; docs/protocols/wrappers.md. Design: docs/design/wrappers.md
 */
#include "site/wrapper.h"

#include "base/bits.h"
#include "os/loader.h"
#include "os/stack.h"
#include "site/tag.h"

enum {
    SEEN_LOG2 = 10,
    SEEN_WAYS = 4,
    UNITS_MAX = (1 << WRAPPER_UNIT_BITS) - 1,
    MARK_BITS = 16,
    MARK_SET = 1 << (MARK_BITS - 1), /* so that no mark is 0 */

    /* docs/decisions/intern.md */
    SAMPLES_MIN = 8,
    DIFFERENT_CALLERS_MIN = 4,
    DIFFERENT_SIZES_MIN = 3,
    PROOFS_MIN = 8, /* where walks alone, not the tables, say that a frame's size is constant */
    MISMATCHES_MAX = 2,

    MISSES_MIN = 4, /* between looks at first; twice as many after each LOOKS_A_STEP */
    LOOKS_A_STEP = 64,
    STEPS_MAX = 8,
    REQUESTS_WHEN_OFF = 1 << 16,
};

struct seen {
    _Atomic uintptr_t site;   /* 0: unused */
    _Atomic uint64_t callers; /* marks of them, four at most */
    _Atomic uint64_t sizes;   /* marks, four at most         */
    _Atomic uint32_t place;   /* of a fact, as all walks so far found it; 0: none */
    _Atomic uint32_t samples;
    _Atomic uint8_t proofs;
    _Atomic uint8_t mismatches;
    _Atomic uint16_t state;
};

_Static_assert(sizeof(uint64_t) * WRAPPER_WAYS == CACHE_LINE_BYTES, "a set is a line");

static _Alignas(CACHE_LINE_BYTES) struct seen seen[1 << SEEN_LOG2];
_Alignas(CACHE_LINE_BYTES) _Atomic uint64_t wrapper_facts[1 << WRAPPER_FACTS_LOG2];

_Atomic uint64_t wrapper_indices[SITES / 64];
static _Atomic uint64_t diverted[SITES / 64]; /* bits by index of site_table */

static bool is_allowed = true;
static bool must_be_exact;
static _Atomic bool is_on;
static _Atomic uint64_t looks;
static _Atomic uint64_t mismatches;
static _Atomic size_t clock_hand; /* next fact of sweep() */

_Thread_local int32_t wrapper_countdown;

void wrapper_configure(enum wrapper_use use)
{
    is_allowed = use != WRAPPERS_OFF;
    store(&is_on, use == WRAPPERS_ON, RELAXED);
}

void wrapper_start(bool is_exact)
{
    must_be_exact = is_exact;
    if (is_allowed)
        store(&is_on, true, RELAXED);
}

/* Hash of a site's index. The same in every run: randomisation does not change site_index(). */
static uint64_t mix_index(uintptr_t site)
{
    return wrapper_mix(site_index((const void *)site));
}

/* Adds a mark of 15 bits to a word with room for four, unless the word has it. */
static void add_mark(_Atomic uint64_t *word, uint64_t bits)
{
    uint64_t marks = load(word, RELAXED), mark = (bits & (MARK_SET - 1)) | MARK_SET;
    for (unsigned shift = 0; shift < 64; shift += MARK_BITS) {
        uint64_t there = marks >> shift & ((1 << MARK_BITS) - 1);
        if (there == mark)
            return;
        if (there == 0) { /* if another thread is faster, this mark is left out */
            compare_swap(word, &marks, marks | mark << shift, RELAXED, RELAXED);
            return;
        }
    }
}

static unsigned marks_in(uint64_t word)
{
    return word == 0 ? 0 : bit_highest(word) / MARK_BITS + 1;
}

static uint64_t fact_of(uintptr_t site, uint64_t place)
{
    return (uint64_t)(site >> CODE_ALIGN_LOG2) << WRAPPER_PLACE_BITS | place;
}

/* The site of a fact; 0: none. */
static uintptr_t site_of_fact(uint64_t fact)
{
    return (uintptr_t)(fact >> WRAPPER_PLACE_BITS) << CODE_ALIGN_LOG2;
}

ALWAYS_INLINE bool has_bit(const _Atomic uint64_t *bits, uintptr_t site)
{
    size_t index = site_index((const void *)site);
    return (load(&bits[index / 64], RELAXED) >> index % 64 & 1) != 0;
}

/* Whether the bit was clear. */
static bool set_bit(_Atomic uint64_t *bits, uintptr_t site)
{
    size_t index = site_index((const void *)site);
    uint64_t bit = (uint64_t)1 << index % 64;
    return (atomic_fetch_or_explicit(&bits[index / 64], bit, RELAXED) & bit) == 0;
}

/* Place of the site's fact; 0: none. */
ALWAYS_INLINE uint64_t read_fact(uintptr_t site)
{
    if (likely(!has_bit(wrapper_indices, site)))
        return 0;
    const _Atomic uint64_t *set = wrapper_set((const void *)site);
    for (unsigned way = 0; way < WRAPPER_WAYS; way++) {
        uint64_t fact = load(&set[way], RELAXED); /* F2 */
        if (wrapper_is_of(fact, (const void *)site))
            return fact & ((1 << WRAPPER_PLACE_BITS) - 1);
    }
    return 0;
}

/* Walks on from `site`, a wrapper whose caller only a walk finds. `first`: the address that the
 * request returns to, at the stack pointer `sp`. Where the unwind tables end, the last caller that
 * they gave counts. */
static NOINLINE const void *walk_through(const void *first, uintptr_t sp, const void *site,
                                         unsigned layer)
{
    uintptr_t callers[WRAPPER_DEPTH_MAX + 1];
    for (size_t want = layer + 2; want <= WRAPPER_DEPTH_MAX + 1; want++) {
        if (os_stack_told((uintptr_t)first, sp, callers, want) < want)
            break;
        site = (const void *)callers[want - 1];
        if (read_fact((uintptr_t)site) == 0)
            break;
    }
    return site;
}

const void *wrapper_see_through(const void *site, const void *frame)
{
    const void *first = site;
    uintptr_t sp = (uintptr_t)frame;
    for (unsigned layer = 0; layer < WRAPPER_DEPTH_MAX; layer++) {
        uint64_t place = read_fact((uintptr_t)site);
        if (place == 0)
            break;
        if (place == WRAPPER_WALKED)
            return walk_through(first, (uintptr_t)frame, site, layer);
        uintptr_t caller = os_stack_word(sp, wrapper_kept_at(sp, place));
        if (caller == 0)
            break;
        site = (const void *)caller;
        sp += (uintptr_t)(place >> WRAPPER_KEPT_BITS) * WRAPPER_UNIT_BYTES;
    }
    return site;
}

/* F1. False: the site's set is full. */
static bool add_fact(uintptr_t site, uint64_t place)
{
    _Atomic uint64_t *set = wrapper_set((const void *)site);
    uint64_t fact = fact_of(site, place);
    for (unsigned way = 0; way < WRAPPER_WAYS; way++) {
        uint64_t expected = 0;
        if (compare_swap(&set[way], &expected, fact, RELAXED, RELAXED) || expected == fact) {
            set_bit(wrapper_indices, site);
            return true;
        }
    }
    return false;
}

/* F3: drops each fact of the site, for two threads may have added one. */
static void drop_fact(uintptr_t site)
{
    _Atomic uint64_t *set = wrapper_set((const void *)site);
    for (unsigned way = 0; way < WRAPPER_WAYS; way++) {
        uint64_t fact = load(&set[way], RELAXED);
        if (fact != 0 && site_of_fact(fact) == site)
            compare_swap(&set[way], &fact, 0, RELAXED, RELAXED);
    }
}

bool wrapper_has_index(size_t index)
{
    return (load(&diverted[index / 64], RELAXED) >> index % 64 & 1) != 0;
}

static void divert(uintptr_t site)
{
    if (set_bit(diverted, site))
        site_refill(site_index((const void *)site), 1);
}

/* Leaves the index diverted while another wrapper has it. Call after drop_fact(). */
static void undivert(uintptr_t site)
{
    size_t index = site_index((const void *)site);
    uint64_t bit = (uint64_t)1 << index % 64;
    for (size_t i = 0; i < 1 << WRAPPER_FACTS_LOG2; i++) {
        uintptr_t other = site_of_fact(load(&wrapper_facts[i], RELAXED));
        if (other != 0 && site_index((const void *)other) == index)
            return;
    }
    if ((atomic_fetch_and_explicit(&diverted[index / 64], ~bit, RELAXED) & bit) != 0)
        site_refill(index, 1);
}

/* Resets an entry but for its mismatches. */
static void begin_seen(struct seen *entry)
{
    store(&entry->state, WRAPPER_NO, RELAXED);
    store(&entry->callers, 0, RELAXED);
    store(&entry->sizes, 0, RELAXED);
    store(&entry->place, 0, RELAXED);
    store(&entry->samples, 0, RELAXED);
    store(&entry->proofs, 0, RELAXED);
}

/* The site's entry. In a full set the entry with the fewest samples that is no wrapper loses one,
 * and is replaced once it has at most one. NULL: the site has no entry yet. */
static struct seen *seen_of(uintptr_t site)
{
    struct seen *set = &seen[mix_index(site) >> (64 - SEEN_LOG2) & ~(uint64_t)(SEEN_WAYS - 1)];
    struct seen *least = NULL;
    for (unsigned way = 0; way < SEEN_WAYS; way++) {
        uintptr_t found = 0;
        if (compare_swap(&set[way].site, &found, site, RELAXED, RELAXED) || found == site)
            return &set[way];
        if (load(&set[way].state, RELAXED) == WRAPPER_NO &&
            (least == NULL || load(&set[way].samples, RELAXED) < load(&least->samples, RELAXED)))
            least = &set[way];
    }
    if (least == NULL)
        return NULL;
    uint32_t samples = load(&least->samples, RELAXED);
    if (samples > 1) {
        compare_swap(&least->samples, &samples, samples - 1, RELAXED, RELAXED);
        return NULL;
    }
    begin_seen(least);
    store(&least->mismatches, 0, RELAXED);
    store(&least->site, site, RELAXED);
    return least;
}

static void note(struct seen *entry, uintptr_t caller, size_t bytes)
{
    fetch_add(&entry->samples, 1, RELAXED);
    add_mark(&entry->callers, site_index((const void *)caller));
    add_mark(&entry->sizes, wrapper_mix(bytes) >> 49);
    if (load(&entry->state, RELAXED) == WRAPPER_NO &&
        load(&entry->samples, RELAXED) >= SAMPLES_MIN &&
        marks_in(load(&entry->callers, RELAXED)) >= DIFFERENT_CALLERS_MIN &&
        marks_in(load(&entry->sizes, RELAXED)) >= DIFFERENT_SIZES_MIN)
        store(&entry->state, WRAPPER_FOUND, RELAXED);
}

static void demote(struct seen *entry, uintptr_t site, enum wrapper_state state)
{
    drop_fact(site);
    undivert(site);
    store(&entry->state, (uint16_t)state, RELAXED);
}

/* Whether the site's address fits into a fact. */
static bool fits_fact(uintptr_t site)
{
    return site_of_fact(fact_of(site, 0)) == site;
}

/* Place in a fact that leads from a frame to its caller; 0: none does. */
static uint32_t place_of(const struct os_caller *from, const struct os_caller *to)
{
    uintptr_t next = to->sp - from->sp, kept = to->kept_at - from->sp;
    if (from->sp == 0 || to->sp == 0 || to->kept_at == 0 || !fits_fact(from->address))
        return 0;
    bool has_place = next % WRAPPER_UNIT_BYTES == 0 && next / WRAPPER_UNIT_BYTES - 1 < UNITS_MAX &&
                     kept < next && kept % sizeof(uintptr_t) == 0;
    if (has_place && (to->is_fixed || !must_be_exact))
        return (uint32_t)(next / WRAPPER_UNIT_BYTES << WRAPPER_KEPT_BITS |
                          kept / sizeof(uintptr_t));
    return must_be_exact && to->is_told ? WRAPPER_WALKED : 0;
}

/* Drops a fact that a walk disproved. The wrapper may begin anew, but not after MISMATCHES_MAX. */
static void note_mismatch(struct seen *entry, uintptr_t site)
{
    fetch_add(&mismatches, 1, RELAXED);
    bool is_hopeless = fetch_add(&entry->mismatches, 1, RELAXED) + 1 >= MISMATCHES_MAX;
    demote(entry, site, is_hopeless ? WRAPPER_BLIND : WRAPPER_NO);
    if (!is_hopeless)
        begin_seen(entry);
}

/* Compares an entry with one walk; adds its fact after enough walks. Whether the fact is proved. */
static bool prove(struct seen *entry, const struct os_caller *site, const struct os_caller *caller)
{
    uint32_t place = place_of(site, caller), before = load(&entry->place, RELAXED);
    enum wrapper_state state = (enum wrapper_state)load(&entry->state, RELAXED);
    if (state == WRAPPER_KNOWN && place != before)
        note_mismatch(entry, site->address);
    else if (state == WRAPPER_FOUND && (place == 0 || (before != 0 && place != before)))
        demote(entry, site->address, WRAPPER_BLIND);
    if (load(&entry->state, RELAXED) != WRAPPER_FOUND)
        return state == WRAPPER_KNOWN && place == before;
    /* The dynamic linker is no wrapper: its requests tell `intern` that modules change. */
    if (os_loader_find((const void *)site->address) == LOADER_ITSELF) {
        demote(entry, site->address, WRAPPER_BLIND);
        return false;
    }
    store(&entry->place, place, RELAXED);
    uint8_t proofs = (uint8_t)(fetch_add(&entry->proofs, 1, RELAXED) + 1);
    if (!caller->is_fixed && !must_be_exact && proofs < PROOFS_MIN)
        return false;
    bool is_added = add_fact(site->address, place);
    if (is_added)
        intern_retire((const void *)site->address);
    store(&entry->state, is_added ? WRAPPER_KNOWN : WRAPPER_BLIND, RELAXED);
    return is_added;
}

/* `callers`: the site, then each one's caller. */
static void look_at(const struct os_caller *callers, size_t count, size_t bytes)
{
    for (size_t at = 0; at + 1 < count; at++) {
        struct seen *entry = seen_of(callers[at].address);
        if (entry == NULL)
            return;
        note(entry, callers[at + 1].address, bytes);
        if (load(&entry->state, RELAXED) == WRAPPER_NO ||
            !prove(entry, &callers[at], &callers[at + 1]))
            return;
        if (at == 0)
            divert(callers[at].address);
    }
}

/* Weighted requests until the next look. Varies, or a program's own rhythm could hide a caller. */
static int32_t interval(uint64_t looks_so_far)
{
    unsigned steps = (unsigned)size_min(looks_so_far / LOOKS_A_STEP, STEPS_MAX);
    int32_t least = (int32_t)(MISSES_MIN * WRAPPER_MISS) << steps;
    return least + (int32_t)(wrapper_mix(looks_so_far) >> 40) % least;
}

static void forget(uintptr_t site)
{
    struct seen *entry = seen_of(site);
    drop_fact(site);
    undivert(site);
    if (entry == NULL)
        return;
    begin_seen(entry);
    store(&entry->mismatches, 0, RELAXED);
    store(&entry->site, 0, RELAXED);
}

static void forget_unloaded(const _Atomic uint64_t *fact)
{
    uintptr_t site = site_of_fact(load(fact, RELAXED));
    if (site != 0 && os_loader_find((const void *)site) == LOADER_NONE)
        forget(site);
}

void wrapper_forget_unloaded(void)
{
    for (size_t i = 0; i < 1 << WRAPPER_FACTS_LOG2; i++)
        forget_unloaded(&wrapper_facts[i]);
}

/* Checks the next fact, and drops it if its module is unloaded. */
static void sweep(void)
{
    for (size_t i = 0; i < 1 << WRAPPER_FACTS_LOG2; i++) {
        size_t at = fetch_add(&clock_hand, 1, RELAXED) % (1 << WRAPPER_FACTS_LOG2);
        if (load(&wrapper_facts[at], RELAXED) == 0)
            continue;
        forget_unloaded(&wrapper_facts[at]);
        return;
    }
}

NOINLINE void wrapper_look(size_t bytes, const void *site)
{
    bool is_wanted = load(&is_on, RELAXED);
    wrapper_countdown = is_wanted ? interval(fetch_add(&looks, 1, RELAXED)) : REQUESTS_WHEN_OFF;
    if (!is_wanted || site_is_tag(site))
        return;
    struct os_caller callers[WRAPPER_DEPTH_MAX + 1];
    size_t count = os_callers((uintptr_t)site, callers, WRAPPER_DEPTH_MAX + 1);
    look_at(callers, count, bytes);
    sweep();
}

void wrapper_visit(void (*visit)(const struct wrapper_fact *fact, void *context), void *context)
{
    for (size_t i = 0; i < sizeof seen / sizeof seen[0]; i++) {
        struct wrapper_fact fact = {
            .site = load(&seen[i].site, RELAXED),
            .samples = load(&seen[i].samples, RELAXED),
            .callers = marks_in(load(&seen[i].callers, RELAXED)),
            .sizes = marks_in(load(&seen[i].sizes, RELAXED)),
            .state = (enum wrapper_state)load(&seen[i].state, RELAXED),
        };
        if (fact.site != 0)
            visit(&fact, context);
    }
}

static void count_one(const struct wrapper_fact *fact, void *context)
{
    struct wrapper_counts *counts = (struct wrapper_counts *)context;
    counts->known += fact->state == WRAPPER_KNOWN;
    counts->blind += fact->state == WRAPPER_BLIND;
}

struct wrapper_counts wrapper_counts(void)
{
    struct wrapper_counts counts = {
        .looks = load(&looks, RELAXED),
        .mismatches = load(&mismatches, RELAXED),
    };
    wrapper_visit(count_one, &counts);
    return counts;
}

const struct watch_fact wrapper_table_facts[] = {
    FACT_AT("wrapper.indices", diverted),
    FACTS_END,
};
