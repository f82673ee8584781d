/*
 * span.c: free runs of units, in segregated lists with boundary tags.
 *
 * Lists: one for each length up to EXACT_MAX units, then EIGHTHS lists a doubling, for dirty and
 * for clean spans; a bitmap finds the first list that fits, so every operation is a bounded number
 * of steps (the two-level segregated fit of Masmano et al., 2004). In a list of mixed lengths the
 * first few spans are tried, then the next list up, whose spans all fit. Each owner has lists of
 * its own, of which only those in use are ever touched.
 *
 * Owner: any thread, under span_lock (RANK_SPAN). No system call is made while it is held.
 * S1: a free span carries its length and state at both ends.   S2: no two neighbours are free in
 * the same state. S3: dirty_units == sum of dirty spans.   S4: every free span is in the list of
 * its length.   S5: the units of a span have one owner, whose lists a free one is in.   S6: an
 * owner has as many units as it took of nobody's.   All by span_verify(). Design:
 * docs/design/spans.md
 */
#include "mem/span.h"

#include "base/bits.h"
#include "mem/extent.h"
#include "mem/region.h"
#include "os/lock.h"
#include "os/os.h"

enum {
    EXACT_MAX = 32,
    EIGHTHS = 8,
    DOUBLINGS = 24,
    LIST_COUNT = EXACT_MAX + EIGHTHS * DOUBLINGS,
    LIST_WORDS = (LIST_COUNT + 63) / 64,
    TRIES_IN_LIST = 8,
    PURGE_BATCH = 32,
};

struct span_lists {
    uint64_t used[LIST_WORDS]; /* which lists are not empty */
    uint32_t heads[LIST_COUNT];
};

static struct lock span_lock;
static struct span_lists nobodys[2];                 /* dirty, clean */
static struct span_lists *owners_lists;              /* the same of owner 1, 2, ... in a mapping */
static uint64_t dirty_owners[SPAN_OWNER_LIMIT / 64]; /* who may have dirty spans */
static uint32_t owned_units[SPAN_OWNER_LIMIT];       /* taken of nobody's so far */
static unsigned purge_hand;                          /* the owner whose spans are purged next */
bool (*span_on_shortage)(size_t units);
static size_t dirty_units;
static size_t dirty_units_least; /* since span_idle_bytes was asked last */

static struct span_lists *lists_of(unsigned owner, unsigned state)
{
    struct span_lists *lists = owner == 0 ? nobodys : &owners_lists[2 * (owner - 1)];
    return &lists[state - SPAN_DIRTY];
}

int span_start_owners(size_t page_bytes)
{
    struct extent made;
    size_t bytes = align_up(2 * (SPAN_OWNER_LIMIT - 1) * sizeof(struct span_lists), page_bytes);
    if (owners_lists != NULL)
        return 0;
    int error = extent_reserve(&made, bytes, page_bytes, "calmalloc owners");
    if (error != 0)
        return error;
    error = extent_commit(&made, bytes, 0);
    if (error != 0)
        os_release(made.start, bytes);
    else
        owners_lists = (struct span_lists *)(void *)made.start;
    return error;
}

static bool is_empty(const struct span_lists *in)
{
    uint64_t used = 0;
    for (unsigned word = 0; word < LIST_WORDS; word++)
        used |= in->used[word];
    return used == 0;
}

static unsigned list_of(size_t units)
{
    if (units <= EXACT_MAX)
        return (unsigned)units - 1;
    unsigned top = bit_highest(units);
    return EXACT_MAX + (top - 5) * EIGHTHS + (unsigned)(units >> (top - 3) & (EIGHTHS - 1));
}

static void list_push(size_t unit, size_t units, unsigned state)
{
    struct span_tag *tag = &region.tags[unit];
    struct span_lists *in = lists_of(tag->owner, state);
    unsigned list = list_of(units);
    struct span_tag *last = &region.tags[unit + units - 1];
    last->units = (uint32_t)units;
    last->state = (uint8_t)state;
    tag->units = (uint32_t)units;
    tag->state = (uint8_t)state;
    tag->previous = 0;
    tag->next = in->heads[list];
    if (tag->next != 0)
        region.tags[tag->next].previous = (uint32_t)unit;
    in->heads[list] = (uint32_t)unit;
    in->used[list / 64] |= (uint64_t)1 << list % 64;
    if (state == SPAN_DIRTY) {
        dirty_units += units;
        dirty_owners[tag->owner / 64] |= (uint64_t)1 << tag->owner % 64;
    }
}

static void list_remove(size_t unit)
{
    struct span_tag *tag = &region.tags[unit];
    unsigned state = tag->state;
    struct span_lists *in = lists_of(tag->owner, state);
    unsigned list = list_of(tag->units);
    if (tag->next != 0)
        region.tags[tag->next].previous = tag->previous;
    if (tag->previous != 0)
        region.tags[tag->previous].next = tag->next;
    else
        in->heads[list] = tag->next;
    if (in->heads[list] == 0)
        in->used[list / 64] &= ~((uint64_t)1 << list % 64);
    if (state == SPAN_DIRTY)
        dirty_units -= tag->units;
    tag->state = SPAN_USED;
    region.tags[unit + tag->units - 1].state = SPAN_USED;
}

/* Marks [unit, unit + units) as one used span. */
static void tag_used(size_t unit, size_t units)
{
    region.tags[unit].units = (uint32_t)units;
    region.tags[unit].state = SPAN_USED;
    region.tags[unit + units - 1].units = (uint32_t)units;
    region.tags[unit + units - 1].state = SPAN_USED;
}

/* Whether a free span of `state` and `owner` begins or ends at the unit. */
static bool is_alike(size_t unit, unsigned state, unsigned owner)
{
    return region.tags[unit].state == state && region.tags[unit].owner == owner;
}

/* Lists a free span after merging it with neighbours of its own state and owner. */
static void insert(size_t unit, size_t units, unsigned state)
{
    size_t behind = unit + units;
    unsigned owner = region.tags[unit].owner;
    if (behind < load(&region.units, RELAXED) && is_alike(behind, state, owner)) {
        units += region.tags[behind].units;
        list_remove(behind);
    }
    if (unit > 1 && is_alike(unit - 1, state, owner)) {
        size_t before = unit - region.tags[unit - 1].units;
        units += region.tags[before].units;
        list_remove(before);
        unit = before;
    }
    list_push(unit, units, state);
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

/* The first unit from `unit` on whose address is a multiple. */
static size_t aligned_from(size_t unit, size_t align_units)
{
    size_t skew = (uintptr_t)region.base >> UNIT_SHIFT;
    return align_up(unit + skew, align_units) - skew;
}

/* The first unit of one of the first few spans of a list in which `units` fit, or 0. */
static size_t find_in(const struct span_lists *in, unsigned list, size_t units, size_t align_units)
{
    size_t unit = in->heads[list];
    for (unsigned tries = 0; tries < TRIES_IN_LIST && unit != 0; tries++) {
        if (aligned_from(unit, align_units) + units <= unit + region.tags[unit].units)
            return unit;
        unit = region.tags[unit].next;
    }
    return 0;
}

/* The first unit of a free span in which `units` fit, or 0. */
static size_t find(const struct span_lists *in, size_t units, size_t align_units)
{
    size_t enough = units + align_units - 1; /* wherever they begin */
    if (enough >> (5 + DOUBLINGS) != 0)
        return 0;
    size_t unit = find_in(in, list_of(units), units, align_units);
    if (unit == 0 && align_units > 1)
        unit = find_in(in, list_of(enough), units, align_units);
    if (unit != 0)
        return unit;
    unsigned list = list_from(in, list_of(enough) + 1);
    return list == LIST_COUNT ? 0 : in->heads[list];
}

/* Cuts [first, first + units) out of the free span at `unit`, which it lies in, and marks it used.
 */
static void carve(size_t unit, size_t first, size_t units)
{
    unsigned state = region.tags[unit].state;
    size_t all = region.tags[unit].units;
    list_remove(unit);
    if (first > unit)
        list_push(unit, first - unit, state);
    if (first + units < unit + all)
        list_push(first + units, unit + all - first - units, state);
    tag_used(first, units);
}

/* At the end of each operation that may take dirty units; in between, a span that is being cut is
 * in no list. */
static void note_least(void)
{
    dirty_units_least = size_min(dirty_units_least, dirty_units);
}

/* Has nobody's units be `owner`'s. The ends are tagged as used: no other thread reads the owner. */
static void stamp(size_t unit, size_t units, unsigned owner)
{
    for (size_t i = unit; i < unit + units; i++)
        region.tags[i].owner = (uint16_t)owner;
}

/* From the lists of `from`, dirty spans first. */
static struct span take_from(unsigned from, size_t units, size_t align_units)
{
    for (unsigned state = SPAN_DIRTY; state <= SPAN_CLEAN; state++) {
        size_t unit = find(lists_of(from, state), units, align_units);
        if (unit != 0) {
            size_t first = aligned_from(unit, align_units);
            carve(unit, first, units);
            note_least();
            return (struct span){first, units, state == SPAN_CLEAN};
        }
    }
    return (struct span){0, 0, false};
}

/* From the lists of `owner`, or else nobody's. */
static struct span take(size_t units, size_t align_units, unsigned owner)
{
    lock_acquire(&span_lock, RANK_SPAN);
    struct span span = take_from(owner, units, align_units);
    bool is_nobodys = span.unit == 0 && owner != 0;
    if (is_nobodys)
        span = take_from(0, units, align_units);
    if (is_nobodys && span.unit != 0)
        owned_units[owner] += (uint32_t)units;
    lock_release(&span_lock, RANK_SPAN);
    if (is_nobodys && span.unit != 0)
        stamp(span.unit, units, owner);
    return span;
}

/* From the lists, or from the front. */
static struct span take_or_grow(size_t units, size_t align_units, unsigned owner)
{
    struct span span = take(units, align_units, owner);
    if (span.unit != 0)
        return span;
    size_t first, count;
    if (region_grow(units + align_units - 1, &first, &count) != 0)
        return span;
    size_t aligned = aligned_from(first, align_units);
    lock_acquire(&span_lock, RANK_SPAN);
    tag_used(aligned, units);
    if (aligned > first)
        insert(first, aligned - first, SPAN_CLEAN);
    if (aligned + units < first + count)
        insert(aligned + units, first + count - aligned - units, SPAN_CLEAN);
    if (owner != 0)
        owned_units[owner] += (uint32_t)units;
    lock_release(&span_lock, RANK_SPAN);
    stamp(aligned, owner != 0 ? units : 0, owner);
    return (struct span){aligned, units, true};
}

struct span span_acquire(size_t units, size_t align_units, unsigned owner)
{
    struct span span = take_or_grow(units, align_units, owner);
    if (span.unit == 0 && span_on_shortage != NULL && span_on_shortage(units + align_units - 1))
        span = take_or_grow(units, align_units, owner);
    return span;
}

void span_release(size_t unit, size_t units, bool is_zero)
{
    lock_acquire(&span_lock, RANK_SPAN);
    ASSERT(region.tags[unit].state == SPAN_USED);
    insert(unit, units, is_zero ? SPAN_CLEAN : SPAN_DIRTY);
    lock_release(&span_lock, RANK_SPAN);
}

/* The span ends at the front: grows the region, which continues it unless another thread grows it
 * first. */
static bool extend_front(size_t unit, size_t units_old, size_t units_new)
{
    size_t first, count, more = units_new - units_old;
    unsigned owner = region.tags[unit].owner;
    if (region_grow(more, &first, &count) != 0)
        return false;
    bool is_ours = first == unit + units_old;
    lock_acquire(&span_lock, RANK_SPAN);
    if (is_ours)
        tag_used(unit, units_new);
    if (!is_ours || count > more)
        insert(is_ours ? first + more : first, is_ours ? count - more : count, SPAN_CLEAN);
    if (is_ours && owner != 0)
        owned_units[owner] += (uint32_t)more;
    lock_release(&span_lock, RANK_SPAN);
    stamp(first, is_ours && owner != 0 ? more : 0, owner);
    return is_ours;
}

bool span_extend(size_t unit, size_t units_old, size_t units_new)
{
    size_t behind = unit + units_old;
    size_t more = units_new - units_old;
    unsigned owner = region.tags[unit].owner;
    if (behind == load(&region.units, RELAXED))
        return extend_front(unit, units_old, units_new);
    lock_acquire(&span_lock, RANK_SPAN);
    const struct span_tag *tag = &region.tags[behind];
    bool is_free = behind < load(&region.units, RELAXED) && tag->state != SPAN_USED;
    bool is_nobodys = is_free && tag->owner != owner && tag->owner == 0;
    bool is_room = is_free && (is_nobodys || tag->owner == owner) && tag->units >= more;
    if (is_room) {
        carve(behind, behind, more);
        tag_used(unit, units_new);
        note_least();
        owned_units[owner] += is_nobodys ? (uint32_t)more : 0;
    }
    lock_release(&span_lock, RANK_SPAN);
    stamp(behind, is_room && is_nobodys ? more : 0, owner);
    return is_room;
}

void span_shrink(size_t unit, size_t units_old, size_t units_new)
{
    lock_acquire(&span_lock, RANK_SPAN);
    tag_used(unit, units_new);
    insert(unit + units_new, units_old - units_new, SPAN_DIRTY);
    lock_release(&span_lock, RANK_SPAN);
}

/* Takes dirty spans of an owner, the longest first, out of its lists, until `claimed` is full or
 * has `units_max`, of which it returns what is left. */
static size_t claim_of(unsigned owner, struct span *claimed, size_t *count, size_t units_max)
{
    struct span_lists *dirty = lists_of(owner, SPAN_DIRTY);
    for (unsigned word = LIST_WORDS; word-- > 0 && units_max > 0;) {
        while (dirty->used[word] != 0 && *count < PURGE_BATCH && units_max > 0) {
            size_t unit = dirty->heads[word * 64 + bit_highest(dirty->used[word])];
            size_t all = region.tags[unit].units;
            size_t units = size_min(all, units_max);
            carve(unit, unit + all - units, units);
            claimed[(*count)++] = (struct span){unit + all - units, units, false};
            units_max -= units;
        }
    }
    return units_max;
}

/* The first owner from `owner` on, round and round, that may have dirty spans. Pre: one has. */
static unsigned dirty_owner(unsigned owner)
{
    uint64_t here = dirty_owners[owner / 64] & ~(uint64_t)0 << owner % 64;
    unsigned word = owner / 64;
    while (here == 0) {
        word = (word + 1) % (SPAN_OWNER_LIMIT / 64);
        here = dirty_owners[word];
    }
    return word * 64 + bit_lowest(here);
}

/* Takes up to PURGE_BATCH dirty spans, of the owner at the hand first: nobody else can touch them
 * then. */
static size_t claim_dirty(struct span *claimed, size_t units_max)
{
    size_t count = 0;
    lock_acquire(&span_lock, RANK_SPAN);
    while (dirty_units > 0 && count < PURGE_BATCH && units_max > 0) {
        purge_hand = dirty_owner(purge_hand);
        units_max = claim_of(purge_hand, claimed, &count, units_max);
        if (is_empty(lists_of(purge_hand, SPAN_DIRTY)))
            dirty_owners[purge_hand / 64] &= ~((uint64_t)1 << purge_hand % 64);
    }
    note_least();
    lock_release(&span_lock, RANK_SPAN);
    return count;
}

size_t span_purge(size_t bytes_max)
{
    struct span claimed[PURGE_BATCH];
    size_t purged = 0;
    bool is_failed = false;
    size_t count = claim_dirty(
        claimed, (size_min(bytes_max, SIZE_MAX - UNIT_BYTES) + UNIT_BYTES - 1) >> UNIT_SHIFT);
    for (size_t i = 0; i < count; i++) {
        size_t bytes = claimed[i].units << UNIT_SHIFT;
        claimed[i].is_zero = !is_failed &&
                             os_counted(os_purge(region_address(claimed[i].unit), bytes)) == 0;
        is_failed = is_failed || !claimed[i].is_zero;
        purged += claimed[i].is_zero ? bytes : 0;
    }
    lock_acquire(&span_lock, RANK_SPAN);
    for (size_t i = 0; i < count; i++)
        insert(claimed[i].unit, claimed[i].units, claimed[i].is_zero ? SPAN_CLEAN : SPAN_DIRTY);
    lock_release(&span_lock, RANK_SPAN);
    return purged;
}

size_t span_dirty_bytes(void)
{
    lock_acquire(&span_lock, RANK_SPAN);
    size_t units = dirty_units;
    lock_release(&span_lock, RANK_SPAN);
    return units << UNIT_SHIFT;
}

size_t span_idle_bytes(void)
{
    lock_acquire(&span_lock, RANK_SPAN);
    size_t units = dirty_units_least;
    dirty_units_least = dirty_units;
    lock_release(&span_lock, RANK_SPAN);
    return units << UNIT_SHIFT;
}

size_t span_owned_bytes(void)
{
    size_t units = 0;
    lock_acquire(&span_lock, RANK_SPAN);
    for (unsigned owner = 1; owner < SPAN_OWNER_LIMIT; owner++)
        units += owned_units[owner];
    lock_release(&span_lock, RANK_SPAN);
    return units << UNIT_SHIFT;
}

static verdict verify_free(size_t unit, unsigned owner, unsigned state)
{
    const struct span_tag *tag = &region.tags[unit];
    const struct span_tag *last = &region.tags[unit + tag->units - 1];
    if (tag->state != state || last->state != state || last->units != tag->units)
        return "S1: a free span's ends disagree";
    size_t behind = unit + tag->units;
    if (behind < load(&region.units, RELAXED) && is_alike(behind, state, owner))
        return "S2: two free neighbours were not merged";
    for (size_t u = unit; u < behind; u++) {
        if (region_kind(u) != UNIT_FREE)
            return "S1: a unit of a free span is in use";
        if (region.tags[u].owner != owner)
            return "S5: a unit of a free span has another owner";
    }
    return NULL;
}

static verdict verify_lists(unsigned owner, unsigned state, size_t *units_listed)
{
    struct span_lists *in = lists_of(owner, state);
    for (unsigned list = 0; list < LIST_COUNT; list++) {
        if ((in->heads[list] != 0) != ((in->used[list / 64] >> list % 64 & 1) != 0))
            return "S4: the bitmap of span lists disagrees with the lists";
        for (size_t unit = in->heads[list]; unit != 0; unit = region.tags[unit].next) {
            verdict found = verify_free(unit, owner, state);
            if (found != NULL)
                return found;
            if (list_of(region.tags[unit].units) != list)
                return "S4: a free span is in the wrong list";
            *units_listed += region.tags[unit].units;
        }
    }
    return NULL;
}

static verdict verify_owners(void)
{
    uint32_t units[SPAN_OWNER_LIMIT] = {0};
    for (size_t unit = 1; unit < load(&region.units, RELAXED); unit++)
        units[region.tags[unit].owner]++;
    for (unsigned owner = 1; owner < SPAN_OWNER_LIMIT; owner++)
        if (units[owner] != owned_units[owner])
            return "S6: a unit has changed its owner";
    return NULL;
}

verdict span_verify(void)
{
    size_t dirty = 0, clean = 0;
    lock_acquire(&span_lock, RANK_SPAN);
    verdict found = verify_owners();
    for (unsigned owner = 0; owner < SPAN_OWNER_LIMIT && found == NULL; owner++) {
        if (owner != 0 && owned_units[owner] == 0)
            continue;
        found = verify_lists(owner, SPAN_DIRTY, &dirty);
        if (found == NULL)
            found = verify_lists(owner, SPAN_CLEAN, &clean);
    }
    if (found == NULL && dirty != dirty_units)
        found = "S3: the count of dirty units is wrong";
    lock_release(&span_lock, RANK_SPAN);
    return found;
}

void span_fork_lock(void)
{
    lock_acquire(&span_lock, RANK_SPAN);
}

void span_fork_unlock(void)
{
    lock_release(&span_lock, RANK_SPAN);
}

void span_fork_reset(void)
{
    lock_reset(&span_lock);
}
