/*
 * region.c: reserves the region and its tables, and moves the front.
 *
 * Without a limit on address space everything is reserved at once. Under `ulimit -v` half of what
 * is left is reserved, and half of the remainder again each time it is used up, always behind the
 * last part, so that the region stays one range and an address still tells its unit by one
 * subtraction. Unit 0 is never handed out: 0 means "no unit".
 *
 * Owner: the front, any thread, by compare-and-swap: docs/protocols/front.md. The end of what is
 * reserved, which moves only under a limit, in turns by region_lock (RANK_GROW). Invariant R1: the
 * map is committed as a whole, the tags for every unit below the front. Design:
 * docs/design/region.md
 */
#include "mem/region.h"

#include "base/bits.h"
#include "mem/extent.h"
#include "mem/huge.h"
#include "os/lock.h"

#define GIB ((size_t)1 << 30)
#define REGION_MAX (16384 * GIB)
#define HEAP_NAME "calmalloc heap"

enum {
    REGION_ALIGN = 2 * 1024 * 1024,
    /* Address space reserved for each byte of RAM, and for each that may be committed: such a limit
     * is not to be spent on the map. */
    REGION_PER_MEMORY = 8,
    REGION_PER_DATA = 1024,
    STEP_UNITS_MIN = 32,
    STEP_UNITS_MAX = 1024,
    LIMITED_MIN = 4 * 1024 * 1024,
    TABLE_STEP = 64 * 1024,
};

struct region region;

static struct lock region_lock;
static struct extent heap;
static struct extent map_table;
static struct extent tag_table;
static size_t page_bytes;

static size_t region_bytes_wanted(const struct os_facts *facts)
{
    size_t most = size_min(facts->data_bytes, REGION_MAX / REGION_PER_DATA) * REGION_PER_DATA;
    if (facts->address_space_bytes != SIZE_MAX)
        return align_down(
            size_min(size_max(facts->address_space_bytes / 2, LIMITED_MIN), REGION_MAX),
            REGION_ALIGN);
    return align_up(size_min(size_max(facts->memory_bytes * REGION_PER_MEMORY, 64 * GIB),
                             size_max(most, LIMITED_MIN)),
                    REGION_ALIGN);
}

static int tables_reserve(size_t bytes_max)
{
    size_t units = bytes_max >> UNIT_SHIFT;
    size_t map_bytes = align_up(units * sizeof *region.map, page_bytes);
    size_t tag_bytes = align_up(units * sizeof(struct span_tag), page_bytes);
    int error = extent_reserve(&map_table, map_bytes, page_bytes, "calmalloc map");
    if (error != 0)
        return error;
    error = extent_commit(&map_table, map_bytes, 0);
    if (error == 0)
        error = extent_reserve(&tag_table, tag_bytes, page_bytes, "calmalloc map");
    if (error != 0)
        os_release(map_table.start, load(&map_table.reserved, RELAXED));
    return error;
}

/*
 * Under a limit the heap will grow behind its end, so it begins far enough below the place where
 * the kernel puts mappings that all that the limit leaves fits in between.
 */
static bool heap_reserve_below(size_t size, size_t room)
{
    void *probe;
    if (os_reserve(REGION_ALIGN, REGION_ALIGN, &probe) != 0)
        return false;
    os_release(probe, REGION_ALIGN);
    if ((uintptr_t)probe < 2 * room)
        return false;
    char *start = (char *)align_down((uintptr_t)probe - room, REGION_ALIGN);
    if (os_extend(start, size) != 0)
        return false;
    heap = (struct extent){.start = start, .reserved = size, .name = HEAP_NAME};
    return true;
}

static int heap_reserve(const struct os_facts *facts)
{
    size_t wanted = region_bytes_wanted(facts);
    bool is_limited = facts->address_space_bytes != SIZE_MAX;
    if (is_limited &&
        heap_reserve_below(wanted,
                           align_up(size_min(facts->address_space_bytes, REGION_MAX), GIB) + GIB))
        return 0;
    int error = extent_reserve(&heap, wanted, REGION_ALIGN, HEAP_NAME);
    while (error != 0 && wanted > REGION_ALIGN) {
        wanted = align_down(wanted / 2, REGION_ALIGN);
        error = extent_reserve(&heap, wanted, REGION_ALIGN, HEAP_NAME);
    }
    return error;
}

int region_start(const struct os_facts *facts)
{
    page_bytes = facts->page_bytes;
    bool is_limited = facts->address_space_bytes != SIZE_MAX;
    size_t limit = align_up(size_min(facts->address_space_bytes, REGION_MAX), REGION_ALIGN) +
                   REGION_ALIGN;
    int error = heap_reserve(facts);
    if (error != 0)
        return error;
    error = tables_reserve(is_limited ? limit : load(&heap.reserved, RELAXED));
    if (error != 0) {
        os_release(heap.start, load(&heap.reserved, RELAXED));
        return error;
    }
    region.base = heap.start;
    region.map = (struct unit_entry *)(void *)map_table.start;
    region.tags = (struct span_tag *)(void *)tag_table.start;
    region.units_mapped = load(&map_table.reserved, RELAXED) / sizeof *region.map;
    return 0;
}

/* Reserves more behind the region. The pieces halve until one fits what the limit leaves. Nobody
 * else can reserve at the same place, so whoever did notes it. */
static void extend(size_t needed)
{
    size_t room = (load(&map_table.reserved, RELAXED) / sizeof *region.map << UNIT_SHIFT);
    size_t reserved = load(&heap.reserved, ACQUIRE);
    if (reserved >= needed || room <= reserved)
        return;
    for (size_t bytes = align_down(room - reserved, REGION_ALIGN); bytes >= REGION_ALIGN;
         bytes = align_down(bytes / 2, REGION_ALIGN)) {
        if (reserved + bytes < needed)
            return;
        if (os_counted(os_extend(heap.start + reserved, bytes)) == 0) {
            store(&heap.reserved, reserved + bytes, RELEASE);
            return;
        }
    }
}

/* In turns, so that nobody finds a place taken that is about to be ours; where whoever has the turn
 * does not run, out of turn. */
static void region_extend(size_t needed)
{
    bool has_turn = lock_acquire_or_fail(&region_lock, RANK_GROW);
    extend(needed);
    if (has_turn)
        lock_release(&region_lock, RANK_GROW);
}

static int commit_units(size_t units)
{
    size_t tag_bytes = align_up(units * sizeof(struct span_tag), page_bytes);
    int error = extent_commit(&tag_table, tag_bytes, TABLE_STEP);
    if (error == 0)
        error = extent_commit(&heap, units << UNIT_SHIFT, 0);
    return error;
}

static size_t units_reserved(void)
{
    return load(&heap.reserved, RELAXED) >> UNIT_SHIFT;
}

/* F1: makes at least `units` from `front` on usable, more where that is possible. Returns the end,
 * or 0. */
static size_t commit_from(size_t front, size_t units)
{
    size_t step = size_min(size_max(front / 8, STEP_UNITS_MIN), STEP_UNITS_MAX);
    size_t least = front + units, end = front + size_max(units, step);
    if (least < front || least >= SIZE_MAX >> UNIT_SHIFT)
        return 0;
    if (end > huge_from && end > least)
        end = align_up(end, HUGE_UNITS); /* so that the last ones are huge, too */
    if (end > units_reserved())
        end = least;
    if (end > units_reserved())
        region_extend(end << UNIT_SHIFT);
    int error = commit_units(end);
    if (error != 0 && end > least)
        error = commit_units(end = least);
    return error == 0 ? end : 0;
}

int region_grow(size_t units, size_t *first, size_t *count)
{
    size_t seen = load(&region.units, RELAXED);
    for (;;) { /* each turn is another thread's progress */
        size_t front = size_max(seen, 1), end = commit_from(front, units);
        if (end == 0)
            return -12;
        /* F3: the tables are committed first: who sees the front may index them. Pairs with loads
         * of `units`. */
        if (compare_swap(&region.units, &seen, end, RELEASE, RELAXED)) {
            *first = front;
            *count = end - front;
            return 0;
        }
    }
}

int region_purge(void *start, size_t size)
{
    size_t end = region_unit((char *)start + size - 1) + 1;
    huge_leave(end);
    if (end > huge_from)
        os_part_huge(start, size);
    return os_counted(os_purge(start, size));
}

int region_renew(size_t unit, size_t units)
{
    huge_leave(unit + units);
    int error = os_counted(os_renew(region_address(unit), units << UNIT_SHIFT));
    if (error == 0)
        os_name(region_address(unit), units << UNIT_SHIFT, heap.name);
    return error;
}

size_t region_mapped_bytes(void)
{
    return load(&heap.committed, ACQUIRE);
}

size_t region_reserved_bytes(void)
{
    return load(&heap.reserved, RELAXED) + load(&map_table.reserved, RELAXED) +
           load(&tag_table.reserved, RELAXED);
}

size_t region_resident_bytes(void)
{
    return os_resident_bytes(heap.start, load(&heap.committed, ACQUIRE));
}

size_t region_tables_mapped_bytes(void)
{
    return load(&map_table.committed, ACQUIRE) + load(&tag_table.committed, ACQUIRE);
}

size_t region_tables_resident_bytes(void)
{
    return os_resident_bytes(map_table.start, load(&map_table.committed, ACQUIRE)) +
           os_resident_bytes(tag_table.start, load(&tag_table.committed, ACQUIRE));
}

bool region_fork_lock(void)
{
    return lock_acquire_or_fail(&region_lock, RANK_GROW);
}

void region_fork_unlock(void)
{
    lock_release(&region_lock, RANK_GROW);
}

void region_fork_reset(void)
{
    lock_reset(&region_lock);
}
