/*
 * memory.c: address space on Linux: reserve, extend, commit, purge, move.
 *
 * Reservations are private anonymous mappings without access, which memory limits do not count.
 * They refuse huge pages as a whole except on request, so that a small process stays small where
 * huge pages are always on, and so that neighbours keep equal flags and merge.
 */
#define _GNU_SOURCE

#include "os/os.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "base/bits.h"
#include "os/linux/auxiliary.h"
#include "os/linux/clock.h"
#include "os/linux/lines.h"
#include "os/linux/syscall.h"
#include "os/linux/told.h"
#include "os/probe.h"

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

enum {
    FLAGS = MAP_PRIVATE | MAP_ANONYMOUS,
    /* Freed addresses stay mapped and must not count when the process forks; os_would_commit()
     * asks. */
    OURS = FLAGS | MAP_NORESERVE,
    ACCESS = PROT_READ | PROT_WRITE,
    HUGE_BYTES = 2 * 1024 * 1024,
    CLEAR_NS_MIN = 20 * 1000, /* no machine clears a huge page in less */
    LOW_ALIGN = 64 * 1024,
    PLACES_TRIED = 8,
    ADDRESS_BITS_MIN = 39, /* fewer leave no room: valgrind gives programs fewer */
    RESIDENT_PAGES = 4096, /* pages per kernel entry */
};

_Thread_local unsigned told_depth;

bool os_is_telling(void)
{
    return told_depth != 0;
}

static bool is_error(long result)
{
    return result < 0 && result >= -4095;
}

static long map(void *at, size_t size, int protection, int flags)
{
    return system_call(SYS_mmap, (long)at, (long)size, protection, flags, -1, 0);
}

static int advise(void *start, size_t size, int advice)
{
    return (int)system_call(SYS_madvise, (long)start, (long)size, advice, 0, 0, 0);
}

int os_release(void *start, size_t size)
{
    return (int)system_call(SYS_munmap, (long)start, (long)size, 0, 0, 0, 0);
}

int os_reserve(size_t size, size_t align, void **out)
{
    size_t padded = size + align;
    if (padded < size)
        return -ENOMEM;
    long at = map(NULL, padded, PROT_NONE, OURS);
    if (is_error(at))
        return (int)at;
    char *start = (char *)align_up((size_t)at, align);
    size_t head = (size_t)(start - (char *)at);
    if (head > 0)
        os_release((char *)at, head);
    if (align > head)
        os_release(start + size, align - head);
    advise(start, size, MADV_NOHUGEPAGE);
    *out = start;
    return 0;
}

/* Maps exactly at `start` if nothing is there; the kernel picks another place if something is. The
 * C library uses the same flags, so system-call filters let the call pass. */
static int map_at(void *start, size_t size, int protection)
{
    long at = map(start, size, protection, OURS);
    if (is_error(at))
        return (int)at;
    if ((void *)at != start) {
        os_release((void *)at, size);
        return -EEXIST;
    }
    advise(start, size, MADV_NOHUGEPAGE);
    return 0;
}

/* The kernel gives every process 16 random bytes, high on its first stack. */
static uintptr_t stack_address(void)
{
    return auxiliary_value(AT_RANDOM);
}

/* Whether each run is to have the same addresses, as in a debugger (ADDR_NO_RANDOMIZE). The first
 * stack then ends where addresses do, at most a page below a power of two, and the program's path
 * lies behind all else on it. */
static bool is_repeatable(void)
{
    enum { PATH_BYTES = 4096, END_BYTES = 4096 + 64 };
    uintptr_t path = auxiliary_value(AT_EXECFN);
    return path != 0 && ((uintptr_t)2 << bit_highest(path)) - path <= PATH_BYTES + END_BYTES;
}

/* Asks the kernel once, at heap start, for as many random numbers as most processes need, since a
 * filter may come later; then mixes them with a counter. */
static uint64_t next_number(void)
{
    enum { NUMBERS = 16 };
    static uint64_t numbers[NUMBERS];
    static _Atomic uint64_t used;
    const uint64_t step = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t turn = fetch_add(&used, 1, RELAXED);
    if (is_repeatable())
        return (turn + 1) * step;
    if (turn == 0)
        os_random(numbers, sizeof numbers);
    return numbers[turn % NUMBERS] ^ turn / NUMBERS * step;
}

/*
 * A random place. Kernels place mappings near the upper end of the address space, and programs at
 * two thirds of it. OS_LOW has at least a ninth of the space behind it; OS_HIGH lies between
 * programs and mappings. With 47 bits: 8 to 64 TiB and 88 to 120 TiB.
 */
static char *random_place(enum os_place place)
{
    size_t share = (size_t)1 << bit_highest(stack_address()) >> 3; /* a sixteenth of all */
    size_t from = place == OS_LOW ? share : 11 * share;
    size_t width = place == OS_LOW ? 7 * share : 4 * share;
    size_t align = place == OS_LOW ? LOW_ALIGN : auxiliary_value(AT_PAGESZ);
    uint64_t number = next_number();
    return (char *)from + align_down(number % width, align);
}

int os_reserve_apart(size_t size, enum os_place place, void **out)
{
    int error = -ENOMEM;
    bool is_sparse = !IS_SANITIZED && bit_highest(stack_address()) + 1 >= ADDRESS_BITS_MIN;
    for (unsigned i = 0; is_sparse && error != 0 && i < PLACES_TRIED; i++) {
        void *start = random_place(place);
        error = map_at(start, size, PROT_NONE);
        if (error == 0)
            *out = start;
    }
    return error;
}

static _Atomic bool is_locking;

void os_note_locking(void)
{
    store(&is_locking, true, RELAXED);
}

/* The added part inherits name, flags and locks. Not where it must not inherit locks, nor where
 * mremap fails: with -EAGAIN, where the process locks its memory and the new part would exceed the
 * limit; or where a filter allows mremap only with the C library's flags. */
int os_extend(void *last, size_t size, size_t larger)
{
    if (load(&is_locking, RELAXED))
        return map_at((char *)last + size, larger - size, PROT_NONE);
    long at = system_call(SYS_mremap, (long)last, (long)size, (long)larger, 0, 0, 0);
    if (is_error(at) && at != -ENOMEM && at != -EFAULT)
        return map_at((char *)last + size, larger - size, PROT_NONE);
    return is_error(at) ? (int)at : 0;
}

/* The kernel checks first whether the range is one mapping (-EFAULT), then whether it can grow: it
 * cannot, because the stack lies behind. */
static bool is_one_mapping(void *start, size_t size, size_t page)
{
    size_t larger = align_up(stack_address() - (uintptr_t)start, page) + page;
    long at = system_call(SYS_mremap, (long)start, (long)size, (long)larger, 0, 0, 0);
    return at == -ENOMEM || at == -EAGAIN;
}

size_t os_reach(void *last, size_t size, size_t most)
{
    size_t page = auxiliary_value(AT_PAGESZ), known = size / page, beyond = most / page + 1;
    if (!is_one_mapping(last, size + page, page))
        return size;
    while (beyond - known > 1) {
        size_t middle = known + (beyond - known) / 2;
        if (is_one_mapping(last, middle * page, page))
            known = middle;
        else
            beyond = middle;
    }
    return known * page;
}

/* Where the process may lock new mappings, without access: nothing is populated. */
bool os_would_commit(size_t size)
{
    int protection = load(&is_locking, RELAXED) ? PROT_NONE : ACCESS;
    long at = map(NULL, size, protection, FLAGS);
    return !is_error(at) && os_release((void *)at, size) == 0;
}

void os_refuse_huge(void *start, size_t size)
{
    size_t page = auxiliary_value(AT_PAGESZ);
    size_t from = align_up((size_t)start, page), end = ((size_t)start + size) & ~(page - 1);
    if (from < end)
        advise((void *)from, end - from, MADV_NOHUGEPAGE);
}

void os_drop_tables(void *start, size_t size)
{
    advise(start, size, MADV_DONTNEED);
}

int os_allow_huge(void *start, size_t size)
{
    return advise(start, size, MADV_HUGEPAGE);
}

static int64_t now_ns(void)
{
    struct timespec now = clock_read(CLOCK_MONOTONIC);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* The touch makes a huge page if the range has no page table. A page table stays when pages are
 * dropped in parts; then the kernel must be asked to replace it (6.1 on). */
uint64_t os_make_huge(void *start, size_t size)
{
    if (advise(start, size, MADV_HUGEPAGE) != 0)
        return 0;
    int64_t before = now_ns();
    *(volatile char *)start = 0;
    bool is_huge = now_ns() - before >= CLEAR_NS_MIN;
    if (!is_huge)
        is_huge = advise(start, size, MADV_COLLAPSE) == 0;
    advise(start, size, MADV_NOHUGEPAGE);
    return is_huge ? (uint64_t)(now_ns() - before) : 0;
}

/* MADV_FREE of a part makes the kernel split a huge page. */
static void part_huge_at(char *start, size_t size)
{
    if (size > 0)
        told_madvise(start, size, MADV_FREE);
}

void os_part_huge(void *start, size_t size)
{
    uintptr_t from = (uintptr_t)start, end = from + size;
    uintptr_t first = align_up(from, HUGE_BYTES), last = align_down(end, HUGE_BYTES);
    if (first > last || first > end) {
        part_huge_at((char *)start, size);
        return;
    }
    part_huge_at((char *)start, first - from);
    part_huge_at((char *)last, end - last);
}

int os_commit(void *start, size_t size)
{
    return (int)system_call(SYS_mprotect, (long)start, (long)size, ACCESS, 0, 0, 0);
}

/* Its pages were purged before; functions that track pages were informed then. */
int os_unmap(void *start, size_t size)
{
    return os_release(start, size);
}

int os_map_again(void *start, size_t size)
{
    return map_at(start, size, ACCESS);
}

int os_purge(void *start, size_t size)
{
    PROBE_2("purge", start, size);
    int error = told_madvise(start, size, MADV_DONTNEED);
    /* Locked pages: newer kernels drop them with this advice. */
    return error == -EINVAL ? advise(start, size, MADV_DONTNEED_LOCKED) : error;
}

int os_purge_own(void *start, size_t size)
{
    int error = advise(start, size, MADV_DONTNEED);
    return error == -EINVAL ? advise(start, size, MADV_DONTNEED_LOCKED) : error;
}

int os_renew(void *start, size_t size)
{
    int error = told_mmap(start, size, ACCESS, OURS | MAP_FIXED);
    if (error != 0)
        return error;
    advise(start, size, MADV_NOHUGEPAGE);
    /* If the program locks all future mappings (MCL_FUTURE), the kernel has filled the range. */
    advise(start, size, MADV_DONTNEED_LOCKED);
    return 0;
}

/* Not locked pages: the kernel never takes off what it counted for their old place, and leaves that
 * place without locks. */
int os_move(void *from, void *to, size_t size)
{
    if (load(&is_locking, RELAXED))
        return -EINVAL;
    int flags = MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP;
    int error = told_mremap(from, size, size, flags, to);
    /* For these errors the kernel may have unmapped the target already. */
    bool may_be_hole = error == -ENOMEM || error == -EFAULT || error == -EAGAIN;
    return !may_be_hole || os_renew(to, size) == 0 ? error : OS_HOLE;
}

int os_carry(void *from, void *to, size_t size)
{
    return told_mremap(from, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to);
}

void os_name(void *start, size_t size, const char *name)
{
    static _Atomic bool is_refused; /* the kernel has no names */
    if (!load(&is_refused, RELAXED) && system_call(SYS_prctl, PR_SET_VMA, PR_SET_VMA_ANON_NAME,
                                                   (long)start, (long)size, (long)name, 0) != 0)
        store(&is_refused, true, RELAXED);
}

/* Adds the present pages to *resident. False: part of the range is not mapped. */
static bool add_present(const char *start, size_t pages, size_t page, size_t *resident)
{
    unsigned char present[RESIDENT_PAGES];
    if (system_call(SYS_mincore, (long)start, (long)(pages * page), (long)present, 0, 0, 0) != 0)
        return false;
    for (size_t i = 0; i < pages; i++)
        *resident += (present[i] & 1) * page;
    return true;
}

/* A separate function: its stack is not needed where smaps exists. Asks page by page about a piece
 * with a hole. */
static NOINLINE size_t resident_by_mincore(const char *start, size_t size)
{
    size_t page = auxiliary_value(AT_PAGESZ), resident = 0;
    for (size_t done = 0, pages; done + page <= size; done += pages * page) {
        pages = size_min((size - done) / page, RESIDENT_PAGES);
        if (add_present(start + done, pages, page, &resident))
            continue;
        for (size_t i = 0; i < pages; i++)
            add_present(start + done + i * page, 1, page, &resident);
    }
    return resident;
}

/* Parses the KiB of a line that begins with "Rss:". False: another line. */
static bool parse_rss(char *line, size_t *kib)
{
    if (strncmp(line, "Rss:", 4) != 0)
        return false;
    line += 4;
    while (*line == ' ')
        line++;
    *kib = lines_number(&line, 10);
    return true;
}

size_t os_resident_bytes(const void *start, size_t size)
{
    struct lines smaps;
    if (lines_open(&smaps, "/proc/self/smaps") != 0)
        return resident_by_mincore((const char *)start, size);
    char line[128];
    size_t resident = 0, kib;
    bool is_ours = false;
    while (lines_read(&smaps, line, sizeof line) > 0) {
        if (parse_rss(line, &kib)) {
            resident += is_ours ? kib * 1024 : 0;
            continue;
        }
        char *rest = line;
        uintptr_t from = lines_number(&rest, 16);
        if (rest > line && *rest == '-')
            is_ours = from >= (uintptr_t)start && from < (uintptr_t)start + size;
    }
    lines_close(&smaps);
    return resident;
}
