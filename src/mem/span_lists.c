/*
 * span_lists.c: changes and verifies the lists of free spans; see span_lists.h.
 *
 * Owner: the holder of the span lock (span.c).
 */
#include "mem/span_lists.h"

#include "mem/meta.h"
#include "mem/pending.h"
#include "mem/undo.h"

enum {
    TRIES_IN_LIST = 8,
    SLACKS_A_TURN = 64, /* ended each time the lock is taken */
};

/* Lists and pending stacks of an owner. */
struct owner_lists {
    struct span_lists lists[3]; /* dirty, clean, unmapped */
    struct pending pending;
};

static struct owner_lists nobodys;
static struct owner_lists *_Atomic owners[SPAN_OWNER_LIMIT]; /* NULL: no lists and no spans */

_Atomic size_t span_dirty_units, span_clean_units, span_unmapped_units, span_slack_units;
static struct span_lists slack_lists[2];             /* SPAN_SLACK, SPAN_SLACK_OTHER      */
static unsigned slack_now = SPAN_SLACK;              /* this window's                     */
static uint64_t dirty_owners[SPAN_OWNER_LIMIT / 64]; /* which owners may have dirty spans */

/* NULL: the owner has no lists yet. Acquire pairs with the release of span_lists_make(). */
static struct owner_lists *of(unsigned owner)
{
    return owner == 0 ? &nobodys : load(&owners[owner], ACQUIRE);
}

bool span_lists_are_made(unsigned owner)
{
    return of(owner) != NULL;
}

bool span_lists_make(unsigned owner)
{
    struct owner_lists *expected = NULL;
    if (likely(span_lists_are_made(owner)))
        return true;
    struct owner_lists *made = (struct owner_lists *)meta_alloc(sizeof *made,
                                                                _Alignof(struct owner_lists));
    /* If several threads come at once, the first one's lists count; the others' memory is lost. */
    return made != NULL &&
           (compare_swap(&owners[owner], &expected, made, RELEASE, RELAXED) || expected != NULL);
}

struct pending *span_lists_pending(unsigned owner)
{
    return &of(owner)->pending;
}

struct span_lists *span_lists_of(unsigned owner, unsigned state)
{
    if (state >= SPAN_SLACK)
        return &slack_lists[state - SPAN_SLACK];
    return &of(owner)->lists[state - SPAN_DIRTY];
}

bool span_lists_are_empty(const struct span_lists *in)
{
    uint64_t used = 0;
    for (unsigned word = 0; word < LIST_WORDS; word++)
        used |= in->used[word];
    return used == 0;
}

/* Makes each change of the lists atomic: the change of a thread that ended is rolled back. */
static struct undo change;

/* Inline, so that each size is a constant. */
ALWAYS_INLINE void keep(void *word, size_t size)
{
    undo_keep(&change, word, size);
}

/* Saves the part of a tag that the lists write. */
static void keep_tag(struct span_tag *tag)
{
    keep(tag, offsetof(struct span_tag, slab));
}

/* Units in lists by state; both slack states share one count. Published when a change is complete.
 */
static size_t counts[SPAN_SLACK + 1];

static void count(unsigned state, size_t more, size_t fewer)
{
    size_t *units = &counts[state < SPAN_SLACK ? state : SPAN_SLACK];
    keep(units, sizeof *units);
    *units += more - fewer;
}

static void commit(void)
{
    store(&span_dirty_units, counts[SPAN_DIRTY], RELAXED);
    store(&span_clean_units, counts[SPAN_CLEAN], RELAXED);
    store(&span_unmapped_units, counts[SPAN_UNMAPPED], RELAXED);
    store(&span_slack_units, counts[SPAN_SLACK], RELAXED);
    undo_commit(&change);
}

void span_lists_mend(void)
{
    undo_take_back(&change);
    commit();
}

static void push(size_t unit, size_t units, unsigned state)
{
    struct span_tag *tag = &region.tags[unit];
    state = state == SPAN_SLACK ? slack_now : state;
    struct span_lists *in = span_lists_of(tag->owner, state);
    unsigned list = span_list_of(units);
    struct span_tag *last = &region.tags[unit + units - 1];
    uint32_t *head = &in->heads[list], next = *head;
    uint64_t *used = &in->used[list / 64];
    keep_tag(tag);
    keep_tag(last);
    keep(head, sizeof *head);
    keep(used, sizeof *used);
    last->units = (uint32_t)units;
    store(&last->state, (uint8_t)state, RELAXED);
    tag->units = (uint32_t)units;
    store(&tag->state, (uint8_t)state, RELAXED);
    tag->previous = 0;
    store(&tag->next, next, RELAXED); /* pending_take() may read it, harmlessly */
    if (next != 0) {
        keep_tag(&region.tags[next]);
        region.tags[next].previous = (uint32_t)unit;
    }
    *head = (uint32_t)unit;
    *used |= (uint64_t)1 << list % 64;
    count(state, units, 0);
    if (state == SPAN_DIRTY) /* harmless for an owner without dirty spans */
        dirty_owners[tag->owner / 64] |= (uint64_t)1 << tag->owner % 64;
}

void span_lists_push(size_t unit, size_t units, unsigned state)
{
    push(unit, units, state);
    commit();
}

static void list_remove(size_t unit)
{
    struct span_tag *tag = &region.tags[unit], *last = &region.tags[unit + tag->units - 1];
    unsigned state = load(&tag->state, RELAXED);
    struct span_lists *in = span_lists_of(tag->owner, state);
    unsigned list = span_list_of(tag->units);
    uint32_t *head = &in->heads[list], next = load(&tag->next, RELAXED), previous = tag->previous;
    uint64_t *used = &in->used[list / 64];
    keep_tag(tag);
    keep_tag(last);
    if (next != 0) {
        keep_tag(&region.tags[next]);
        region.tags[next].previous = previous;
    }
    if (previous != 0) {
        keep_tag(&region.tags[previous]);
        store(&region.tags[previous].next, next, RELAXED);
    } else {
        keep(head, sizeof *head);
        *head = next;
    }
    if (*head == 0) {
        keep(used, sizeof *used);
        *used &= ~((uint64_t)1 << list % 64);
    }
    count(state, 0, tag->units);
    store(&tag->state, SPAN_USED, RELAXED);
    store(&last->state, SPAN_USED, RELAXED);
}

/* Lists a free span after merging it with neighbours of the same state and owner. */
static void merge(size_t unit, size_t units, unsigned state)
{
    size_t behind = unit + units;
    unsigned owner = region.tags[unit].owner;
    if (span_is_alike(behind, state, owner)) {
        units += region.tags[behind].units;
        list_remove(behind);
    }
    if (unit > 1 && span_is_alike(unit - 1, state, owner)) {
        size_t before = unit - region.tags[unit - 1].units;
        units += region.tags[before].units;
        list_remove(before);
        unit = before;
    }
    push(unit, units, state);
}

/* Turns the slack that begins at the unit into a clean span. */
static void end_slack(size_t unit)
{
    size_t units = region.tags[unit].units;
    list_remove(unit);
    merge(unit, units, SPAN_CLEAN);
}

void span_lists_insert(size_t unit, size_t units, unsigned state)
{
    size_t behind = unit + units;
    if (span_is_slack(behind))
        end_slack(behind);
    merge(unit, units, state);
    commit();
}

static unsigned list_from(const struct span_lists *in, unsigned list)
{
    for (unsigned word = list / 64; word < LIST_WORDS; word++) {
        uint64_t used = in->used[word];
        if (word == list / 64)
            used &= ~(uint64_t)0 << list % 64;
        if (used != 0)
            return word * 64 + bit_lowest(used);
    }
    return LIST_COUNT;
}

/* Tries the first few spans of a list. Returns the first unit of one that fits `units`, or 0. */
static size_t find_in(const struct span_lists *in, unsigned list, size_t units, size_t align_units)
{
    size_t unit = in->heads[list];
    for (unsigned tries = 0; tries < TRIES_IN_LIST && unit != 0; tries++) {
        if (region_aligned(unit, align_units) + units <= unit + region.tags[unit].units)
            return unit;
        unit = load(&region.tags[unit].next, RELAXED);
    }
    return 0;
}

size_t span_lists_find(const struct span_lists *in, size_t units, size_t align_units)
{
    size_t enough = units + align_units - 1; /* fits wherever the span begins */
    if (enough >> (5 + DOUBLINGS) != 0)
        return 0;
    unsigned list = list_from(in, span_list_of(units));
    for (; list <= span_list_of(enough); list = list_from(in, list + 1)) {
        size_t unit = find_in(in, list, units, align_units);
        if (unit != 0)
            return unit;
    }
    return list == LIST_COUNT ? 0 : in->heads[list];
}

void span_lists_cut(size_t unit, size_t first, size_t units)
{
    unsigned state = span_is_slack(unit) ? SPAN_SLACK : span_state_at(unit);
    size_t all = region.tags[unit].units;
    list_remove(unit);
    if (first > unit)
        push(unit, first - unit, state);
    if (first + units < unit + all)
        push(first + units, unit + all - first - units, state);
    span_tag_used(first, units);
    commit();
}

unsigned span_lists_below(const struct span_lists *in, unsigned list)
{
    for (unsigned word = (list + 63) / 64; word-- > 0;) {
        uint64_t used = in->used[word];
        if (word == list / 64)
            used &= bits_below(list % 64);
        if (used != 0)
            return word * 64 + bit_highest(used);
    }
    return LIST_COUNT;
}

/* Ends some of the slack of a window. */
static size_t end_slack_of(unsigned window)
{
    struct span_lists *in = span_lists_of(0, window);
    size_t ended = 0;
    for (unsigned list; ended < SLACKS_A_TURN && (list = list_from(in, 0)) < LIST_COUNT; ended++) {
        end_slack(in->heads[list]);
        commit();
    }
    return ended;
}

size_t span_lists_end_slack(void)
{
    return end_slack_of(SPAN_SLACK) + end_slack_of(SPAN_SLACK_OTHER);
}

void span_lists_age_slack(void)
{
    unsigned before = SPAN_SLACK + SPAN_SLACK_OTHER - slack_now;
    if (end_slack_of(before) < SLACKS_A_TURN)
        slack_now = before;
}

unsigned span_lists_dirty_owner(unsigned owner)
{
    uint64_t here = dirty_owners[owner / 64] & ~(uint64_t)0 << owner % 64;
    unsigned word = owner / 64;
    while (here == 0) {
        word = (word + 1) % (SPAN_OWNER_LIMIT / 64);
        here = dirty_owners[word];
    }
    return word * 64 + bit_lowest(here);
}

void span_lists_clear_owner(unsigned owner)
{
    dirty_owners[owner / 64] &= ~((uint64_t)1 << owner % 64);
}

static verdict verify_free(size_t unit, unsigned owner, unsigned state)
{
    const struct span_tag *tag = &region.tags[unit];
    const struct span_tag *last = &region.tags[unit + tag->units - 1];
    if (load(&tag->state, RELAXED) != state || load(&last->state, RELAXED) != state ||
        last->units != tag->units)
        return "S1: a free span's ends disagree";
    size_t behind = unit + tag->units;
    if (span_is_alike(behind, state, owner))
        return "S2: two free neighbours were not merged";
    if (state >= SPAN_SLACK && span_is_listed(unit - 1))
        return "S7: slack lies behind no block";
    for (size_t u = unit; u < behind; u++) {
        if (region_bin(u / CHUNK_UNITS) != NO_SLAB || load(&region.tags[u].is_large, RELAXED))
            return "S1: a unit of a free span is in use";
        if (state < SPAN_SLACK && region.tags[u].owner != owner)
            return "S5: a unit of a free span has another owner";
    }
    return NULL;
}

static verdict verify_lists(unsigned owner, unsigned state, size_t *units_listed)
{
    struct span_lists *in = span_lists_of(owner, state);
    for (unsigned list = 0; list < LIST_COUNT; list++) {
        if ((in->heads[list] != 0) != ((in->used[list / 64] >> list % 64 & 1) != 0))
            return "S4: the bitmap of span lists disagrees with the lists";
        for (size_t unit = in->heads[list]; unit != 0;
             unit = load(&region.tags[unit].next, RELAXED)) {
            verdict found = verify_free(unit, owner, state);
            if (found != NULL)
                return found;
            if (span_list_of(region.tags[unit].units) != list)
                return "S4: a free span is in the wrong list";
            *units_listed += region.tags[unit].units;
        }
    }
    return NULL;
}

static verdict verify_owners(const _Atomic uint32_t *owned_units)
{
    uint32_t units[SPAN_OWNER_LIMIT] = {0};
    for (size_t unit = CHUNK_UNITS; unit < region_units(); unit++)
        units[region.tags[unit].owner]++;
    for (unsigned owner = 1; owner < SPAN_OWNER_LIMIT; owner++)
        if (units[owner] != load(&owned_units[owner], RELAXED))
            return "S6: a unit has changed its owner";
    return NULL;
}

verdict span_lists_verify(const _Atomic uint32_t *owned_units)
{
    size_t dirty = 0, clean = 0, gone = 0, slack = 0;
    verdict found = verify_owners(owned_units);
    for (unsigned state = SPAN_SLACK; state <= SPAN_SLACK_OTHER && found == NULL; state++)
        found = verify_lists(0, state, &slack);
    for (unsigned owner = 0; owner < SPAN_OWNER_LIMIT && found == NULL; owner++) {
        if (owner != 0 && load(&owned_units[owner], RELAXED) == 0)
            continue;
        found = verify_lists(owner, SPAN_DIRTY, &dirty);
        if (found == NULL)
            found = verify_lists(owner, SPAN_CLEAN, &clean);
        if (found == NULL)
            found = verify_lists(owner, SPAN_UNMAPPED, &gone);
    }
    if (found == NULL && dirty != load(&span_dirty_units, RELAXED))
        found = "S3: the count of dirty units is wrong";
    if (found == NULL && slack != load(&span_slack_units, RELAXED))
        found = "S3: the count of slack is wrong";
    if (found == NULL && gone != load(&span_unmapped_units, RELAXED))
        found = "S3: the count of gone units is wrong";
    if (found == NULL && clean != load(&span_clean_units, RELAXED))
        found = "S3: the count of clean units is wrong";
    return found;
}
