/*
 * region.c: finds a place for the region and its tables, and moves the front.
 *
 * The heap and each table are separate extents that grow in place, the tables with the heap. Chunk
 * 0 is the guard below the region and is never handed out: unit 0 means "no unit".
 *
 * Owner: the front, any thread, by compare-and-swap: docs/protocols/front.md. Invariant R1: map and
 * tags are committed for every chunk below the front. Design: docs/design/region.md
 */
#include "mem/region.h"

#include "base/bits.h"
#include "base/check.h"
#include "mem/extent.h"
#include "mem/huge.h"
#include "mem/meta.h"

#define GIB ((size_t)1 << 30)

enum {
    NO_MEMORY = -12, /* -ENOMEM */
    /* Address space reserved per byte of RAM where the kernel chooses the place. */
    ROOM_PER_MEMORY = 8,
    STEP_CHUNKS_FIRST = 7, /* with chunk 0 half a MiB */
    STEP_CHUNKS_MIN = 32,
    STEP_CHUNKS_MAX = 1024,
    TABLE_STEP = 64 * 1024,
    BOOKS_SHARE = 64, /* of the region, for the bookkeeping of 16-byte blocks */
};

struct region region = {.granule = UNIT_BYTES};

static struct extent heap; /* from unit 1 on */
static struct extent map_table;
static struct extent tag_table;
static size_t page_bytes;
static size_t chunks_doubted; /* larger requests may fail for their size alone */

static size_t chunks_most(void)
{
    return 1 + (heap.most >> CHUNK_SHIFT);
}

static int table_make(struct extent *table, size_t bytes_a_chunk)
{
    size_t most = align_up(chunks_most() * bytes_a_chunk, page_bytes);
    struct extent_plan plan = {
        .guard = page_bytes, .most = most, .room = most, .name = "calmalloc map"};
    return extent_make(table, &plan);
}

int region_start(const struct os_facts *facts)
{
    size_t room = size_max(facts->memory_bytes * ROOM_PER_MEMORY, 64 * GIB);
    struct extent_plan plan = {.guard = CHUNK_BYTES,
                               .most = (size_t)(REGION_CHUNKS_MAX - 1) << CHUNK_SHIFT,
                               .room = align_up(room, CHUNK_BYTES),
                               .is_heap = true,
                               .name = "calmalloc heap"};
    page_bytes = facts->page_bytes;
    int error = extent_make(&heap, &plan);
    if (error != 0)
        return error;
    error = table_make(&map_table, sizeof *region.map);
    if (error == 0) {
        error = table_make(&tag_table, CHUNK_UNITS * sizeof *region.tags);
        if (error != 0)
            extent_release(&map_table);
    }
    if (error != 0) {
        extent_release(&heap);
        return error;
    }
    region.granule = size_max(page_bytes, UNIT_BYTES);
    chunks_doubted = region_is_apart() ? STEP_CHUNKS_MAX : facts->memory_bytes / 2 >> CHUNK_SHIFT;
    region.base = heap.start - CHUNK_BYTES;
    region.map = (struct chunk_entry *)(void *)map_table.start;
    region.tags = (struct span_tag *)(void *)tag_table.start;
    return 0;
}

static int table_commit(struct extent *table, size_t bytes)
{
    return extent_commit(table, align_up(bytes, page_bytes), TABLE_STEP);
}

/* Commits the tables first: if the heap's commit fails, little is wasted. */
static int commit_chunks(size_t chunks)
{
    int error = table_commit(&map_table, chunks * sizeof *region.map);
    if (error == 0)
        error = table_commit(&tag_table, chunks * CHUNK_UNITS * sizeof *region.tags);
    if (error == 0)
        error = extent_commit(&heap, (chunks - 1) << CHUNK_SHIFT, 0);
    return error;
}

/* F1: commits at least `chunks` from `front` on, more if possible and wanted. Returns the end, or
 * 0. */
static size_t commit_from(size_t front, size_t chunks, bool is_more_wanted)
{
    /* Small: mlockall() of a small process locks all committed memory. */
    size_t small = front == 1 ? STEP_CHUNKS_FIRST : STEP_CHUNKS_MIN;
    size_t step = size_min(size_max(front / 8, small), STEP_CHUNKS_MAX);
    if (chunks > chunks_most() - front)
        return 0;
    size_t least = front + chunks, end = front + size_max(chunks, step);
    if (!is_more_wanted)
        end = least;
    if (end > huge_from / CHUNK_UNITS && end > least) /* so that the last units can be huge too */
        end = region_aligned(end * CHUNK_UNITS, HUGE_UNITS) / CHUNK_UNITS;
    end = size_min(end, chunks_most());
    /* Before tables are committed, which stay. */
    if (chunks > chunks_doubted && !os_would_commit(chunks << CHUNK_SHIFT))
        return 0;
    int error = commit_chunks(end);
    if (error != 0 && end > least)
        error = commit_chunks(end = least);
    if (error == 0 && is_more_wanted)
        meta_prepare((end << CHUNK_SHIFT) / BOOKS_SHARE);
    return error == 0 ? end : 0;
}

int region_grow(size_t units, bool is_more_wanted, size_t *first, size_t *count)
{
    size_t seen = load(&region.chunks, RELAXED);
    size_t chunks = units / CHUNK_UNITS + (units % CHUNK_UNITS != 0);
    for (;;) { /* each turn is another thread's progress */
        size_t front = size_max(seen, 1), end = commit_from(front, chunks, is_more_wanted);
        if (end == 0)
            return NO_MEMORY;
        /* F3: the tables are committed first: a thread that sees the front may index them. Pairs
         * with loads of `chunks`. */
        if (compare_swap(&region.chunks, &seen, end, RELEASE, RELAXED)) {
            *first = front * CHUNK_UNITS;
            *count = (end - front) * CHUNK_UNITS;
            return 0;
        }
    }
}

static int purge(void *start, size_t size)
{
    if (huge_may_be_at(region_unit(start)) || huge_may_be_at(region_unit((char *)start + size - 1)))
        os_part_huge(start, size);
    return os_counted(os_purge(start, size));
}

int region_purge(void *start, size_t size)
{
    int error = 0;
    for (size_t done = 0, piece; done < size && error == 0; done += piece) {
        char *at = (char *)start + done;
        piece = size_min(size - done, huge_piece_bytes(at));
        error = purge(at, piece);
    }
    return error;
}

static bool is_zero_page(const char *page)
{
    const uint64_t *words = (const uint64_t *)(const void *)page;
    uint64_t any = 0;
    for (size_t i = 0; i < page_bytes / sizeof *words && any == 0; i++)
        any = words[i];
    return any == 0;
}

/* Copies all but pages that are zero on both sides. With `is_zero_there` the target is not read, so
 * that it needs no page tables. */
static void copy_pages(char *to, const char *from, size_t size, bool is_zero_there)
{
    size_t copied = 0; /* copied or skipped so far */
    for (size_t at = 0; at + page_bytes <= size; at += page_bytes)
        if (is_zero_page(from + at) && (is_zero_there || is_zero_page(to + at))) {
            __builtin_memcpy(to + copied, from + copied, at - copied);
            copied = at + page_bytes;
        }
    __builtin_memcpy(to + copied, from + copied, size - copied);
}

void region_copy(char *to, const char *from, size_t size)
{
    copy_pages(to, from, size, false);
}

/* Copies a piece to a zero target and purges the source. Unwritten pages stay without memory.
 * Returns whether the source is purged. */
static bool copy(char *from, char *to, size_t size)
{
    copy_pages(to, from, size, true);
    return region_purge(from, size) == 0;
}

/* Half, in whole pages; 0: `units` is one page. */
static size_t half_of(size_t units)
{
    return align_down(units / 2, region_granule_units());
}

/* Moves a piece, or its first part that is one mapping. Returns the units moved, or OS_HOLE. */
static ptrdiff_t move_piece(size_t from, size_t to, size_t units, bool *is_zero)
{
    char *source = region_address(from), *target = region_address(to);
    for (; units > PURGE_PIECE_UNITS; units = half_of(units)) {
        int error = os_move(source, target, units << UNIT_SHIFT);
        if (error == 0 || error == OS_HOLE)
            return error == 0 ? (ptrdiff_t)units : error;
        if (error != OS_PARTS) {
            units = size_min(units, PURGE_PIECE_UNITS);
            break;
        }
    }
    *is_zero = copy(source, target, units << UNIT_SHIFT) && *is_zero;
    return (ptrdiff_t)units;
}

int region_move(size_t from, size_t to, size_t units, bool is_copied, bool *is_zero)
{
    const size_t piece_max = is_copied ? PURGE_PIECE_UNITS : MOVE_PIECE_UNITS;
    ptrdiff_t moved;
    *is_zero = true;
    if (huge_may_be_at(from) || huge_may_be_at(from + units - 1))
        huge_note(to, units);
    for (size_t done = 0; done < units; done += (size_t)moved) {
        size_t piece = size_min(units - done, piece_max);
        moved = move_piece(from + done, to + done, piece, is_zero);
        if (moved > 0)
            continue;
        while (done > 0) { /* move back what was moved */
            piece = size_min(done, PURGE_PIECE_UNITS);
            done -= piece;
            copy(region_address(to + done), region_address(from + done), piece << UNIT_SHIFT);
        }
        return os_counted(OS_HOLE);
    }
    return 0;
}

/* Carries pieces that are one mapping each. Returns the units carried. */
static size_t carry_pieces(size_t from, size_t to, size_t units)
{
    size_t done = 0, piece = MOVE_PIECE_UNITS;
    while (done < units && piece > 0) {
        piece = size_min(piece, units - done);
        size_t bytes = piece << UNIT_SHIFT;
        if (os_carry(region_address(from + done), region_address(to + done), bytes) != 0) {
            piece = half_of(piece);
            continue;
        }
        done += piece;
        piece = MOVE_PIECE_UNITS;
    }
    return done;
}

bool region_carry(size_t from, size_t to, size_t units, size_t more)
{
    char *end = region_address(to + units);
    if (os_counted(os_map_again(end, more << UNIT_SHIFT)) != 0)
        return false;
    if (huge_may_be_at(from) || huge_may_be_at(from + units - 1))
        huge_note(to, units);
    size_t done = carry_pieces(from, to, units);
    if (done == units)
        return true;
    /* The kernel cannot move some pages. Carry the others back, into address space that was free a
     * moment ago. */
    size_t back = done == 0 ? 0 : carry_pieces(to, from, done);
    if (back != done)
        check_stop("the kernel moved pages at %p, and does not move them back",
                   (void *)region_address(from));
    os_counted(os_unmap(end, more << UNIT_SHIFT));
    return false;
}

int region_renew(size_t unit, size_t units)
{
    int error = 0;
    region_purge(region_address(unit), units << UNIT_SHIFT); /* so that the renewal has little to
                                                                drop */
    for (size_t done = 0, piece; done < units && error == 0; done += piece) {
        piece = size_min(units - done, MOVE_PIECE_UNITS);
        error = os_counted(os_renew(region_address(unit + done), piece << UNIT_SHIFT));
    }
    return error;
}

bool region_is_apart(void)
{
    return chunks_most() == REGION_CHUNKS_MAX;
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

size_t region_around(const void *address, size_t *inside)
{
    size_t unit = region_unit(address), back = 0;
    while (back < unit && !load(&region.tags[unit - back].is_large, RELAXED) &&
           region_bin((unit - back) / CHUNK_UNITS) == NO_SLAB)
        back++;
    const struct span_tag *tag = &region.tags[unit - back];
    size_t units = load(&tag->asked, RELAXED);
    if (!load(&tag->is_large, RELAXED) || back >= units)
        return 0;
    *inside = (size_t)((const char *)address - region_address(unit - back));
    return units << UNIT_SHIFT;
}
