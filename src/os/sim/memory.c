/*
 * memory.c: simulated address space with real memory underneath.
 *
 * Each reservation has bitmaps, out of line: of committed pages, of pages in huge pages, of
 * unmapped pages, and of pages at which a mapping begins since a move. Every call is checked: whole
 * pages, inside one reservation, committed before it is purged, renewed or moved, never committed
 * twice. A move copies only resident pages, so tests that count resident pages see exactly the
 * pages that hold something.
 *
 * Owner: the table, under sim_lock. M1: the committed count is the sum of all bitmaps.
 */
#define _GNU_SOURCE

#include "os/os.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bits.h"
#include "os/sim/state.h"

enum { RESERVATIONS_MAX = 4096, FLAGS = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE };

/* Room behind a reservation of os_reserve_apart(). */
static const size_t room_low = (size_t)64 << 30, room_high = (size_t)1 << 30;

struct reservation {
    char *start; /* NULL: the entry is unused */
    size_t size;
    size_t bitmap_bytes;
    size_t room;         /* room behind it for os_extend                 */
    uint64_t *committed; /* with the room's pages                        */
    uint64_t *huge;      /* pages in huge pages                          */
    uint64_t *begins;    /* pages at which a mapping begins since a move */
    uint64_t *gone;      /* unmapped pages                               */
};

static struct reservation reservations[RESERVATIONS_MAX];
static size_t reservation_count; /* entries that were ever used */
static size_t reserved_bytes;
static size_t committed_bytes;

static void *map_or_stop(void *at, size_t size, int protection, int flags)
{
    void *start = mmap(at, size, protection, flags, -1, 0);
    if (start == MAP_FAILED)
        sim_stop("the real kernel has no room for %zu bytes", size);
    madvise(start, size, MADV_NOHUGEPAGE);
    return start;
}

static size_t bitmap_bytes(size_t size)
{
    return align_up(size / sim_page_bytes() / 8 + 8, sim_page_bytes());
}

static bool is_committed(const struct reservation *in, size_t page)
{
    return (in->committed[page / 64] >> page % 64 & 1) != 0;
}

static void check_pages(const char *call, const void *start, size_t size)
{
    if (((uintptr_t)start | size) % sim_page_bytes() != 0 || size == 0)
        sim_stop("%s: %p and %zu bytes are not whole pages", call, (void *)(uintptr_t)start, size);
}

static struct reservation *reservation_of(const char *call, const void *start, size_t size)
{
    const char *from = start;
    for (size_t i = 0; i < reservation_count; i++) {
        struct reservation *in = &reservations[i];
        if (in->start != NULL && from >= in->start && from < in->start + in->size) {
            if (size > (size_t)(in->start + in->size - from))
                sim_stop("%s: %p and %zu bytes reach past the reservation", call,
                         (void *)(uintptr_t)start, size);
            return in;
        }
    }
    sim_stop("%s: %p is not reserved", call, (void *)(uintptr_t)start);
}

/* Stops the program unless every page of the range is in the state that the call needs. */
static struct reservation *checked(const char *call, const void *start, size_t size,
                                   bool is_committed_wanted)
{
    check_pages(call, start, size);
    struct reservation *in = reservation_of(call, start, size);
    size_t first = (size_t)((const char *)start - in->start) / sim_page_bytes();
    for (size_t page = first; page < first + size / sim_page_bytes(); page++)
        if (is_committed(in, page) != is_committed_wanted)
            sim_stop("%s: page %p is %s", call, (void *)(in->start + page * sim_page_bytes()),
                     is_committed_wanted ? "not committed" : "committed already");
    return in;
}

void sim_check_committed(const char *call, const void *start, size_t size)
{
    sim_lock();
    checked(call, start, size, true);
    sim_unlock();
}

static struct reservation *entry_unused(void)
{
    for (size_t i = 0; i < reservation_count; i++)
        if (reservations[i].start == NULL)
            return &reservations[i];
    if (reservation_count == RESERVATIONS_MAX)
        sim_stop("more than %u reservations", (unsigned)RESERVATIONS_MAX);
    return &reservations[reservation_count++];
}

static bool is_over(size_t now, size_t more, size_t limit)
{
    return more > limit || now > limit - more;
}

static int reserve(size_t size, size_t align, size_t room, void **out)
{
    if (sim_enter_kernel(SIM_RESERVE, "os_reserve") || size + align + room < size)
        return -ENOMEM;
    int before = errno, result = -ENOMEM;
    sim_lock();
    size_t padded = size + room + align;
    char *at = is_over(reserved_bytes, size, sim_reserved_max())
                   ? MAP_FAILED
                   : mmap(NULL, padded, PROT_NONE, FLAGS, -1, 0);
    if (at != MAP_FAILED) {
        char *start = (char *)align_up((uintptr_t)at, align);
        if (start > at)
            munmap(at, (size_t)(start - at));
        madvise(start, size + room, MADV_NOHUGEPAGE);
        size_t bitmap = bitmap_bytes(size + room);
        *entry_unused() = (struct reservation){
            .start = start,
            .size = size,
            .room = padded - size - (size_t)(start - at),
            .bitmap_bytes = bitmap,
            .committed = map_or_stop(NULL, bitmap, PROT_READ | PROT_WRITE, FLAGS),
            .huge = map_or_stop(NULL, bitmap, PROT_READ | PROT_WRITE, FLAGS),
            .begins = map_or_stop(NULL, bitmap, PROT_READ | PROT_WRITE, FLAGS),
            .gone = map_or_stop(NULL, bitmap, PROT_READ | PROT_WRITE, FLAGS),
        };
        reserved_bytes += size;
        *out = start;
        result = 0;
    }
    sim_unlock();
    errno = before;
    return result;
}

int os_reserve(size_t size, size_t align, void **out)
{
    check_pages("os_reserve", NULL, size);
    if (!is_power_of_two(align) || align < sim_page_bytes())
        sim_stop("os_reserve: alignment %zu", align);
    return reserve(size, align, 0, out);
}

int os_reserve_apart(size_t size, enum os_place place, void **out)
{
    enum { ALIGN = 64 * 1024 };
    check_pages("os_reserve_apart", NULL, size);
    return reserve(size, ALIGN, place == OS_LOW ? room_low : room_high, out);
}

/* The reservation with the inaccessible bytes [last, last + size); NULL: some are committed. */
static struct reservation *extensible(const char *call, void *last, size_t size)
{
    check_pages(call, last, size);
    struct reservation *in = reservation_of(call, last, size);
    size_t first = (size_t)((char *)last - in->start) / sim_page_bytes();
    for (size_t page = first; page < first + size / sim_page_bytes(); page++)
        if (is_committed(in, page))
            return NULL;
    return in;
}

/* The simulator locks nothing. */
void os_note_locking(void) {}

int os_extend(void *last, size_t size, size_t larger)
{
    if (larger <= size)
        sim_stop("os_extend: from %zu to %zu bytes", size, larger);
    if (sim_enter_kernel(SIM_EXTEND, "os_extend"))
        return -ENOMEM;
    int before = errno, result = -EFAULT;
    sim_lock();
    struct reservation *in = extensible("os_extend", last, size);
    if (in != NULL && (char *)last + size == in->start + in->size) {
        size_t more = larger - size;
        bool has_room = more <= in->room && !is_over(reserved_bytes, more, sim_reserved_max());
        result = has_room ? 0 : -ENOMEM;
        if (has_room) {
            in->size += more;
            in->room -= more;
            reserved_bytes += more;
        }
    }
    sim_unlock();
    errno = before;
    return result;
}

size_t os_reach(void *last, size_t size, size_t most)
{
    sim_lock();
    struct reservation *in = extensible("os_reach", last, size);
    size_t reach = in == NULL ? size : (size_t)(in->start + in->size - (char *)last);
    sim_unlock();
    return size_min(reach, most);
}

bool os_would_commit(size_t size)
{
    check_pages("os_would_commit", NULL, size);
    if (sim_enter_kernel(SIM_COMMIT, "os_would_commit"))
        return false;
    sim_lock();
    bool would = !is_over(committed_bytes, size, sim_committed_max()) &&
                 !is_over(reserved_bytes, size, sim_reserved_max());
    sim_unlock();
    return would;
}

int os_commit(void *start, size_t size)
{
    if (sim_enter_kernel(SIM_COMMIT, "os_commit"))
        return -ENOMEM;
    int before = errno, result = -ENOMEM;
    sim_lock();
    struct reservation *in = checked("os_commit", start, size, false);
    if (!is_over(committed_bytes, size, sim_committed_max())) {
        if (mprotect(start, size, PROT_READ | PROT_WRITE) != 0)
            sim_stop("the real kernel refuses to commit %zu bytes", size);
        size_t first = (size_t)((char *)start - in->start) / sim_page_bytes();
        for (size_t page = first; page < first + size / sim_page_bytes(); page++)
            in->committed[page / 64] |= (uint64_t)1 << page % 64;
        committed_bytes += size;
        result = 0;
    }
    sim_unlock();
    errno = before;
    return result;
}

/* Access to unmapped pages faults. */
static void change_gone(char *start, size_t size, bool is_gone)
{
    struct reservation *in = reservation_of("a change", start, size);
    size_t first = (size_t)(start - in->start) / sim_page_bytes();
    map_or_stop(start, size, is_gone ? PROT_NONE : PROT_READ | PROT_WRITE, FLAGS | MAP_FIXED);
    for (size_t page = first; page < first + size / sim_page_bytes(); page++) {
        uint64_t bit = (uint64_t)1 << page % 64, *gone = &in->gone[page / 64];
        if (((*gone & bit) != 0) == is_gone)
            sim_stop("%p is %s already", start, is_gone ? "gone" : "there");
        *gone ^= bit;
        in->committed[page / 64] ^= bit;
        in->begins[page / 64] &= ~bit;
    }
    committed_bytes += is_gone ? -size : size;
    reserved_bytes += is_gone ? -size : size;
}

int os_unmap(void *start, size_t size)
{
    if (sim_enter_kernel(SIM_RELEASE, "os_unmap"))
        return -ENOMEM;
    int before = errno;
    sim_lock();
    checked("os_unmap", start, size, true);
    change_gone(start, size, true);
    sim_unlock();
    errno = before;
    return 0;
}

int os_map_again(void *start, size_t size)
{
    if (sim_enter_kernel(SIM_COMMIT, "os_map_again"))
        return -ENOMEM;
    int before = errno, result = -ENOMEM;
    sim_lock();
    checked("os_map_again", start, size, false);
    if (!is_over(reserved_bytes, size, sim_reserved_max()) &&
        !is_over(committed_bytes, size, sim_committed_max())) {
        change_gone(start, size, false);
        result = 0;
    }
    sim_unlock();
    errno = before;
    return result;
}

/* Sets whether the pages of a range are in huge pages. */
static void mark_huge(void *start, size_t size, bool is_huge)
{
    struct reservation *in = reservation_of("mark_huge", start, size);
    size_t first = (size_t)((char *)start - in->start) / sim_page_bytes();
    for (size_t page = first; page < first + size / sim_page_bytes(); page++) {
        uint64_t bit = (uint64_t)1 << page % 64, *word = &in->huge[page / 64];
        *word = is_huge ? *word | bit : *word & ~bit;
    }
}

int os_purge(void *start, size_t size)
{
    int before = errno;
    sim_lock();
    checked("os_purge", start, size, true);
    sim_unlock();
    bool fails = sim_enter_kernel(SIM_PURGE, "os_purge");
    if (!fails && madvise(start, size, MADV_DONTNEED) != 0)
        sim_stop("the real kernel refuses to purge %zu bytes", size);
    if (!fails) {
        sim_lock();
        mark_huge(start, size, false); /* a huge page that was not split first stays in part */
        sim_unlock();
    }
    errno = before;
    return fails ? -EINVAL : 0;
}

int os_purge_own(void *start, size_t size)
{
    return os_purge(start, size);
}

/* Makes a range a separate mapping, or joins it with its neighbours. */
static void note_mappings(void *start, size_t size, bool is_own)
{
    sim_lock();
    struct reservation *in = reservation_of("a mapping", start, size);
    size_t first = (size_t)((char *)start - in->start) / sim_page_bytes();
    size_t end = first + size / sim_page_bytes();
    for (size_t page = first; page <= end; page++) {
        uint64_t bit = (uint64_t)1 << page % 64;
        in->begins[page / 64] &= ~bit;
        if (is_own && (page == first || page == end))
            in->begins[page / 64] |= bit;
    }
    sim_unlock();
}

/* Whether a range spans several mappings. */
static bool has_parts(void *start, size_t size)
{
    sim_lock();
    struct reservation *in = reservation_of("os_move", start, size);
    size_t first = (size_t)((char *)start - in->start) / sim_page_bytes();
    bool is_more = false;
    for (size_t page = first + 1; page < first + size / sim_page_bytes(); page++)
        is_more = is_more || (in->begins[page / 64] >> page % 64 & 1) != 0;
    sim_unlock();
    return is_more;
}

int os_renew(void *start, size_t size)
{
    int before = errno;
    sim_lock();
    checked("os_renew", start, size, true);
    sim_unlock();
    bool fails = sim_enter_kernel(SIM_RENEW, "os_renew");
    if (!fails) {
        map_or_stop(start, size, PROT_READ | PROT_WRITE, FLAGS | MAP_FIXED);
        note_mappings(start, size, false);
    }
    errno = before;
    return fails ? -ENOMEM : 0;
}

/* In the real kernel's pages. */
static size_t count_resident(const char *start, size_t size)
{
    unsigned char present[1024];
    size_t resident = 0, page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t done = 0; done < size; done += sizeof present * page) {
        size_t bytes = size_min(size - done, sizeof present * page);
        if (mincore((void *)(uintptr_t)(start + done), bytes, present) != 0)
            sim_stop("the real kernel does not know %zu bytes at %p", bytes,
                     (void *)(uintptr_t)(start + done));
        for (size_t i = 0; i < bytes / page; i++)
            resident += (present[i] & 1u) * page;
    }
    return resident;
}

/* Later access to these pages, or calls on them, stop the program. */
static void make_hole(void *start, size_t size)
{
    sim_lock();
    struct reservation *in = checked("os_move", start, size, true);
    size_t first = (size_t)((char *)start - in->start) / sim_page_bytes();
    for (size_t page = first; page < first + size / sim_page_bytes(); page++)
        in->committed[page / 64] &= ~((uint64_t)1 << page % 64);
    committed_bytes -= size;
    mprotect(start, size, PROT_NONE);
    sim_unlock();
}

int os_move(void *from, void *to, size_t size)
{
    int before = errno;
    sim_lock();
    checked("os_move", from, size, true);
    checked("os_move", to, size, true);
    sim_unlock();
    if ((char *)from < (char *)to + size && (char *)to < (char *)from + size)
        sim_stop("os_move: %p and %p overlap", from, to);
    int error = !sim_enter_kernel(SIM_MOVE, "os_move") ? 0 : sim_makes_holes() ? OS_HOLE : -ENOMEM;
    if (error == 0 && has_parts(from, size))
        error = OS_PARTS;
    for (size_t done = 0; error == 0 && done < size; done += sim_page_bytes()) {
        char *source = (char *)from + done, *target = (char *)to + done;
        madvise(target, sim_page_bytes(), MADV_DONTNEED);
        if (count_resident(source, sim_page_bytes()) > 0)
            memcpy(target, source, sim_page_bytes());
        madvise(source, sim_page_bytes(), MADV_DONTNEED);
    }
    if (error != 0)
        madvise(to, size, MADV_DONTNEED);
    else
        note_mappings(to, size, true);
    if (error == OS_HOLE)
        make_hole(to, size);
    errno = before;
    return error;
}

int os_carry(void *from, void *to, size_t size)
{
    int before = errno;
    sim_lock();
    checked("os_carry", from, size, true);
    checked("os_carry", to, size, false);
    sim_unlock();
    int error = sim_enter_kernel(SIM_MOVE, "os_carry") ? -ENOMEM : 0;
    if (error == 0 && has_parts(from, size))
        error = OS_PARTS;
    if (error == 0) {
        sim_lock();
        change_gone(to, size, false);
        memcpy(to, from, size);
        change_gone(from, size, true);
        sim_unlock();
        note_mappings(to, size, true);
    }
    errno = before;
    return error;
}

int os_release(void *start, size_t size)
{
    check_pages("os_release", start, size);
    if (sim_enter_kernel(SIM_RELEASE, "os_release"))
        return -ENOMEM;
    int before = errno;
    sim_lock();
    struct reservation *in = reservation_of("os_release", start, size);
    if (in->start != (char *)start || in->size != size)
        sim_stop("os_release: %p and %zu bytes are only a part of the reservation", start, size);
    for (size_t page = 0; page < size / sim_page_bytes(); page += 64)
        committed_bytes -= (size_t)bit_count(in->committed[page / 64]) * sim_page_bytes();
    munmap(in->committed, in->bitmap_bytes);
    munmap(in->huge, in->bitmap_bytes);
    munmap(in->begins, in->bitmap_bytes);
    for (size_t page = 0; page < size / sim_page_bytes(); page += 64)
        reserved_bytes += (size_t)bit_count(in->gone[page / 64]) * sim_page_bytes();
    munmap(in->gone, in->bitmap_bytes);
    munmap(start, size + in->room);
    reserved_bytes -= size;
    *in = (struct reservation){0};
    sim_unlock();
    errno = before;
    return 0;
}

void os_refuse_huge(void *start, size_t size)
{
    sim_enter_kernel(SIM_HUGE, "os_refuse_huge");
    (void)start;
    (void)size;
}

void os_drop_tables(void *start, size_t size)
{
    sim_enter_kernel(SIM_HUGE, "os_drop_tables");
    sim_lock();
    checked("os_drop_tables", start, size, true);
    sim_unlock();
    for (size_t at = 0; at < size; at += sim_page_bytes())
        if (*((volatile char *)start + at) != 0)
            sim_stop("os_drop_tables: somebody has written to %p", (char *)start + at);
}

/* As if the program touched all of the range at once. */
int os_allow_huge(void *start, size_t size)
{
    bool fails = sim_enter_kernel(SIM_HUGE, "os_allow_huge");
    uintptr_t first = align_up((uintptr_t)start, SIM_HUGE_BYTES);
    uintptr_t end = align_down((uintptr_t)start + size, SIM_HUGE_BYTES);
    sim_lock();
    checked("os_allow_huge", start, size, true);
    if (!fails && first < end)
        mark_huge((void *)first, end - first, true);
    sim_unlock();
    return fails ? -ENOMEM : 0;
}

uint64_t os_make_huge(void *start, size_t size)
{
    bool fails = sim_enter_kernel(SIM_HUGE, "os_make_huge");
    sim_lock();
    checked("os_make_huge", start, size, true);
    if (!fails)
        mark_huge(start, size, true);
    sim_unlock();
    if ((uintptr_t)start % size != 0)
        sim_stop("os_make_huge: %p is no place for a huge page", start);
    for (size_t at = 0; at < size; at += sim_page_bytes())
        if (*((volatile char *)start + at) != 0)
            sim_stop("os_make_huge: somebody has written to %p", start);
    if (!fails)
        memset(start, 0, size);
    return fails ? 0 : sim_touch_ns() + 1;
}

/* Splits the huge page around an address, unless it begins there. */
static void part_at(char *address)
{
    struct reservation *in = reservation_of("part_at", address, 0);
    char *start = (char *)((uintptr_t)address & ~(uintptr_t)(SIM_HUGE_BYTES - 1));
    if (start != address && start >= in->start && start + SIM_HUGE_BYTES <= in->start + in->size)
        mark_huge(start, SIM_HUGE_BYTES, false);
}

void os_part_huge(void *start, size_t size)
{
    bool fails = sim_enter_kernel(SIM_HUGE, "os_part_huge");
    sim_lock();
    checked("os_part_huge", start, size, true);
    if (!fails) {
        part_at(start);
        part_at((char *)start + size);
        memset(start, 0xAB, size); /* the content is no longer needed */
    }
    sim_unlock();
}

void os_name(void *start, size_t size, const char *name)
{
    sim_enter_kernel(SIM_NAME, "os_name");
    if (name == NULL || name[0] == '\0' || strlen(name) > 79) /* the kernel takes 80 with the NUL */
        sim_stop("os_name: no name, or one too long for the kernel");
    sim_lock();
    checked("os_name", start, size, false);
    sim_unlock();
}

size_t os_resident_bytes(const void *start, size_t size)
{
    sim_enter(SIM_RESIDENT);
    if (size == 0)
        return 0;
    int before = errno;
    sim_lock();
    check_pages("os_resident_bytes", start, size);
    reservation_of("os_resident_bytes", start, size);
    sim_unlock();
    size_t resident = count_resident(start, size);
    errno = before;
    return resident;
}

size_t sim_reserved_bytes(void)
{
    sim_lock();
    size_t bytes = reserved_bytes;
    sim_unlock();
    return bytes;
}

size_t sim_committed_bytes(void)
{
    sim_lock();
    size_t bytes = committed_bytes;
    sim_unlock();
    return bytes;
}

size_t sim_huge_bytes(void)
{
    size_t pages = 0;
    sim_lock();
    for (size_t i = 0; i < reservation_count; i++) {
        const struct reservation *in = &reservations[i];
        for (size_t page = 0; in->start != NULL && page < in->size / sim_page_bytes(); page += 64)
            pages += bit_count(in->huge[page / 64]);
    }
    sim_unlock();
    return pages * sim_page_bytes();
}

size_t sim_resident_bytes(void)
{
    size_t bytes = 0;
    sim_lock();
    for (size_t i = 0; i < reservation_count; i++) {
        const struct reservation *in = &reservations[i];
        for (size_t page = 0; in->start != NULL && page < in->size / sim_page_bytes(); page += 64)
            if (in->committed[page / 64] != 0)
                bytes += count_resident(in->start + page * sim_page_bytes(),
                                        size_min(64, in->size / sim_page_bytes() - page) *
                                            sim_page_bytes());
    }
    sim_unlock();
    return bytes;
}
