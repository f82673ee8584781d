/*
 * os.h: the kernel and the C library's thread hooks, as one contract.
 *
 * linux/ is the real implementation; sim/ is for tests, checks every precondition, and fails on
 * demand. Functions that can fail return 0 or a negative errno value; on failure, outputs and
 * address space are unchanged. No function touches errno, allocates, or takes one of the
 * allocator's locks.
 */
#ifndef CALM_OS_OS_H
#define CALM_OS_OS_H

#include "base/atomic.h"
#include "base/attr.h"

/* Limits of the process's control groups: the least along their paths. */
struct os_limits {
    size_t memory_max;  /* bytes, above which the kernel kills; SIZE_MAX: none          */
    size_t memory_high; /* bytes, above which it reclaims; SIZE_MAX: none               */
    unsigned cpus;      /* CPU time in CPUs, rounded up, at least 1; UINT_MAX: no limit */
};

/* The system's setting for huge pages of 2 MiB: none, on request, or wherever they fit. */
enum os_huge { OS_HUGE_NEVER, OS_HUGE_ASKED, OS_HUGE_ALWAYS };

/* Facts of the machine. Constant after os_start(). */
struct os_facts {
    size_t page_bytes;
    size_t memory_bytes;       /* of RAM                                             */
    unsigned cpu_count;        /* usable by this process and its groups, at least 1  */
    size_t memory_limit_bytes; /* of its groups, at the start; SIZE_MAX: none        */
    unsigned core_limit;       /* every core number is below; see os/rseq.h          */
    enum os_huge huge_pages;
    size_t address_limit_bytes; /* RLIMIT_AS or RLIMIT_DATA; SIZE_MAX: none */
    bool is_secure;             /* set-uid and the like: do not trust the environment */
};
void os_start(struct os_facts *out);

/*
 * Reads the current limits; no file stays open. OS_LIMITS_START reads every file, but not version
 * 1's soft limit; OS_LIMITS_MEMORY reads only memory's. False: unreadable, or no memory limit is
 * stated; `out` has no memory limits then. Any thread. Cost: three system calls, some 6 us, for
 * each file.
 */
enum os_limits_use { OS_LIMITS_START, OS_LIMITS_MEMORY };
bool os_limits_read(struct os_limits *out, enum os_limits_use use);

/*
 * Address space. All sizes and addresses are multiples of the page.
 *
 * os_reserve: reserves `size` inaccessible bytes aligned to `align` (a power of two, at least a
 * page), where the kernel has room.
 *
 * os_reserve_apart: reserves at a random place where the kernel puts nothing, so that the range can
 * be extended. OS_LOW: a multiple of 64 KiB with terabytes behind it. Fails if there is no such
 * place.
 *
 * os_extend: extends the inaccessible range [last, last + size), the end of a reservation, to
 * `larger` bytes. Also fails if something lies behind, as when another thread has extended it.
 * OS_TAKEN: os_reach cannot tell then.
 *
 * os_reach: current length in bytes of the range at `last`, at most `most`.
 *
 * os_commit: makes [start, start + size) of a reservation readable and writable, reading as zero.
 *
 * os_purge: drops the pages of a committed range, which reads as zero afterwards. Fails for locked
 * pages.
 *
 * os_renew: maps fresh zero pages over a committed range, so that it joins its neighbours' mapping.
 *
 * os_move: moves the pages of [from, from + size) to `to`, both committed; `from` reads as zero
 * afterwards. On failure `from` is whole and `to` reads as zero, but after OS_HOLE `to` may be a
 * hole and must not be used again. OS_PARTS: parts of `from` were moved there earlier; each part
 * can be moved separately.
 *
 * os_unmap: unmaps a committed range of a reservation, and keeps its surroundings.
 *
 * os_map_again: commits an unmapped range again, reading as zero. -EEXIST: something else lies
 * there.
 *
 * os_carry: moves the pages and the mapping of [from, from + size) to an unmapped range; `from` is
 * unmapped afterwards. Needs no more address space. OS_PARTS as in os_move. On failure nothing
 * moved.
 *
 * os_release: unmaps a whole reservation.
 *
 * -ENOMEM: no address space, no mapping left, or a limit.
 */
enum { OS_TAKEN = -17 /* -EEXIST */, OS_HOLE = -6 /* -ENXIO */, OS_PARTS = -14 /* -EFAULT */ };

enum os_place { OS_LOW, OS_HIGH };

int os_reserve(size_t size, size_t align, void **out);
int os_reserve_apart(size_t size, enum os_place place, void **out);
int os_extend(void *last, size_t size, size_t larger);

/* The program locks its memory (mlockall): from now on os_extend() makes new mappings, which are
 * locked as new ones are, and os_move() fails. */
void os_note_locking(void);
size_t os_reach(void *last, size_t size, size_t most);
int os_commit(void *start, size_t size);
int os_purge(void *start, size_t size);

/* os_purge() of the heap's own books, which no program is told of: under locks, with signals
 * blocked. */
int os_purge_own(void *start, size_t size);
int os_renew(void *start, size_t size);
int os_move(void *from, void *to, size_t size);
int os_unmap(void *start, size_t size);
int os_map_again(void *start, size_t size);
int os_carry(void *from, void *to, size_t size);
int os_release(void *start, size_t size);

/* Whether the kernel would commit `size` more bytes now. */
bool os_would_commit(size_t size);

/* os_refuse_huge: prevents huge pages in the whole pages of a range; existing ones stay. All
 * reservations begin so. Without it, the allocator's variables could take 2 MiB.
 * os_allow_huge: ends that for a committed range. Returns 0 or a negative errno value. */
void os_refuse_huge(void *start, size_t size);
int os_allow_huge(void *start, size_t size);

/* Drops the page tables of a committed range that reads as zero: they prevent huge pages. Does
 * nothing where pages are locked, and before Linux 6.14. */
void os_drop_tables(void *start, size_t size);

/* Makes a huge page of a committed range that has a huge page's size and alignment and reads as
 * zero. Returns the nanoseconds taken, or 0: ordinary pages are there, as they may be if the thread
 * had to wait for its processor. In every case the kernel makes no huge page there by itself. */
uint64_t os_make_huge(void *start, size_t size);

/* Splits huge pages that cross either end of a committed range whose contents are no longer needed,
 * so that a purge frees memory and does not only unmap it. */
void os_part_huge(void *start, size_t size);

/*
 * os_page_out: sends the pages of a committed range to swap. Returns 0 even if pages stay, for lack
 * of swap or because they are shared; -EINVAL: a kernel before 5.4, or locked pages. A touched page
 * comes back by itself.
 *
 * os_cool: marks the pages of the range as first to go when memory is short.
 *
 * os_present: writes a byte for each page of a committed range, 1 if the page is in memory, else 0;
 * on failure `out` is undefined.
 */
int os_page_out(void *start, size_t size);
int os_cool(void *start, size_t size);
int os_present(const void *start, size_t size, uint8_t *out);

/* Names a reservation for /proc/PID/maps, if the kernel supports names; extensions inherit the
 * name. `name` is static. Only during process start: system-call filters that the process installs
 * later need not allow the call. */
void os_name(void *start, size_t size, const char *name);

/* Resident bytes of [start, start + size), whole mappings, as the kernel counts them in smaps. */
size_t os_resident_bytes(const void *start, size_t size);

/* The CPU that the calling thread runs on; UINT_MAX if the kernel does not say. */
unsigned os_cpu(void);

/*
 * Which CPUs share a last-level cache: writes the group of each CPU below `cpus`. At most 255
 * groups, numbered from 0 in the order of their first CPUs; 0 for CPUs that share with no CPU this
 * process may use. Returns the number of groups; 1 if unknown. Only during process start.
 */
unsigned os_cache_groups(uint8_t *group_of_cpu, unsigned cpus);

/* Milliseconds on a monotonic clock; cheap, with a granularity of a few milliseconds. */
uint64_t os_clock_ms(void);

/* Nanoseconds since 1970, by the system's clock. */
uint64_t os_clock_real_ns(void);

/* Fills `out` with unpredictable bytes, from the kernel if possible. */
void os_random(void *out, size_t size);

/* Writes all of `words` to `fd`. */
int os_write(int fd, const char *words, size_t length);

/* Identifies an open file by two numbers. False: `fd` is not open. */
bool os_file_identity(int fd, uint64_t out[2]);

/* The value of an environment variable, or NULL; NULL before the C library has an environment. */
const char *os_environment(const char *name);

/*
 * Sleeps while *word == expected, at most `timeout_ms` (UINT64_MAX: no limit); may wake early, also
 * by signals. os_wake wakes at most `count` sleepers.
 */
void os_wait(_Atomic uint32_t *word, uint32_t expected, uint64_t timeout_ms);
void os_wake(_Atomic uint32_t *word, uint32_t count);

/*
 * Blocks the calling thread's signals except SIGTRAP, so that a program may step through itself,
 * and SIGSYS, so that it may answer its own system calls; *before receives the old mask. False:
 * nothing changed, because the process has one thread or the kernel refuses.
 */
bool os_signals_block(uint64_t *before);

void os_signals_restore(uint64_t before);

/* Whether the C library knows of only one thread; only the calling thread can change that. False if
 * the C library does not say. */
bool os_is_alone(void);

uint32_t os_process_id(void);
uint32_t os_parent_id(void); /* 0 if not visible from here */

/*
 * The kernel's number of the calling thread, from 1. os_thread_id: the C library's note, without a
 * system call, if it keeps one; else the kernel's answer. os_thread_id_asked: always the kernel's.
 *
 * os_thread_is_noted: whether the C library keeps a note; the thread's storage is the C library's
 * then.
 *
 * os_task_has_ended: whether no thread of this process, or of another visible one, has the number
 * any more. One futex call. False if the kernel cannot say. A main thread that ended before others
 * has ended. Numbers may be reused later.
 */
uint32_t os_thread_id(void);
uint32_t os_thread_id_asked(void);
bool os_thread_is_noted(void);
bool os_task_has_ended(uint32_t id);

/* Sets the calling thread's errno, for functions whose contract includes errno. */
void os_set_errno(int error);

/* Kernel calls that failed since the start; callers count a result by passing it through
 * os_counted(). */
extern _Atomic uint64_t os_failed_calls;

ALWAYS_INLINE int os_counted(int error)
{
    if (unlikely(error != 0))
        fetch_add(&os_failed_calls, 1, RELAXED);
    return error;
}

/*
 * Hooks of the C library, installed once from the library's constructor.
 *
 * os_on_thread_exit: `on_exit(value)` runs when a thread that armed a value ends. -ENOMEM, -EAGAIN:
 * cannot.
 *
 * os_on_fork: `before` runs in the parent before the fork, `in_parent` and `in_child` after it.
 */
int os_on_thread_exit(void (*on_exit)(void *value));
int os_thread_exit_arm(void *value);

/* Whether the calling thread is inside a function of the C library that the heap called and that
 * may allocate: a program may interpose it. A slow path of the heap is then unfinished. */
bool os_is_telling(void);
int os_on_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void));

#endif
