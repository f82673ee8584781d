/*
 * os.h: the kernel and the C library's thread hooks, as one contract.
 *
 * linux/ implements it for real; sim/ implements it for tests, checks every precondition, and fails
 * on demand. Functions that can fail return 0 or a negative errno value, and leave their outputs
 * and the address space as they were. None of them touches errno, allocates, or takes a lock of
 * ours.
 */
#ifndef CALM_OS_OS_H
#define CALM_OS_OS_H

#include "base/atomic.h"
#include "base/attr.h"

/* What the control groups of the process allow, the least along their paths. */
struct os_limits {
    size_t memory_max;  /* bytes, beyond which the kernel kills; SIZE_MAX: any number     */
    size_t memory_high; /* bytes, beyond which it presses; SIZE_MAX: any number           */
    unsigned cpus;      /* worth of time, rounded up, at least 1; UINT_MAX: all           */
};

/* What the machine is. Constant after os_start. */
struct os_facts {
    size_t page_bytes;
    size_t memory_bytes;       /* of RAM                                                     */
    unsigned cpu_count;        /* that this process may use, and its groups allow, at least 1  */
    size_t memory_limit_bytes; /* of its groups, at the start; SIZE_MAX: none          */
    unsigned core_limit;       /* every core's number is below; see os/rseq.h                */
    bool has_huge_pages;       /* of 2 MiB, and they are not forbidden                       */
    bool is_secure;            /* set-uid and the like: the environment is not to be trusted */
};
void os_start(struct os_facts *out);

/*
 * Reads the limits as they are now; no file stays open. For the start, of which every file is a
 * part, not what version 1 calls a soft limit; later memory's alone. False: they cannot be read, or
 * nothing is said of memory; no limits then. Any thread. Cost: three system calls, some 6 us, for
 * each file.
 */
enum os_limits_use { OS_LIMITS_START, OS_LIMITS_MEMORY };
bool os_limits_read(struct os_limits *out, enum os_limits_use use);

/*
 * Address space. All sizes and addresses are multiples of the page.
 *
 * os_reserve: `size` bytes aligned to `align` (a power of two, at least a page), inaccessible,
 * nothing resident, where the kernel has room. os_reserve_apart: the same at a random place where
 * the kernel puts nothing, so that it can be extended: OS_LOW, a multiple of 64 KiB, has terabytes
 * behind it. Fails where there is no such place. os_extend: has the inaccessible range [last, last
 * + size), the end of a reservation, be `larger` bytes. Fails also when something lies behind, as
 * when another thread has extended it; OS_TAKEN: then os_reach cannot tell. os_reach: how many
 * bytes it is by now; at most `most`. os_commit: makes [start, start + size) of a reservation
 * readable and writable, reading as zero. os_purge: drops the pages of a committed range; it reads
 * as zero afterwards. Fails where pages are locked. os_renew: maps committed zero pages afresh over
 * a committed range, so that it joins its neighbours' mapping. os_move: moves the pages of [from,
 * from + size) to `to`, both committed; `from` reads as zero afterwards. On failure `from` is whole
 * and `to` reads as zero, but after OS_HOLE `to` may be a hole and must not be used again.
 * OS_PARTS: parts of `from` were moved there before, and each may be moved alone. os_unmap: gives
 * the addresses of a committed range of a reservation back, and keeps what lies around it.
 * os_map_again: commits such a range again, reading as zero; -EEXIST: something lies there now.
 * os_carry: moves the pages of [from, from + size), and the mapping, to a range that was unmapped;
 * `from` is as one that was unmapped then, and no more address space is needed. OS_PARTS as above;
 * on failure nothing has moved. os_release: returns a whole reservation. -ENOMEM: no address space,
 * no mapping left, or a limit.
 */
enum { OS_TAKEN = -17 /* -EEXIST */, OS_HOLE = -6 /* -ENXIO */, OS_PARTS = -14 /* -EFAULT */ };

enum os_place { OS_LOW, OS_HIGH };

int os_reserve(size_t size, size_t align, void **out);
int os_reserve_apart(size_t size, enum os_place place, void **out);
int os_extend(void *last, size_t size, size_t larger);
size_t os_reach(void *last, size_t size, size_t most);
int os_commit(void *start, size_t size);
int os_purge(void *start, size_t size);
int os_renew(void *start, size_t size);
int os_move(void *from, void *to, size_t size);
int os_unmap(void *start, size_t size);
int os_map_again(void *start, size_t size);
int os_carry(void *from, void *to, size_t size);
int os_release(void *start, size_t size);

/* Whether the kernel would commit so much more now. */
bool os_would_commit(size_t size);

/* Keeps huge pages from the whole pages of a range: of the program's own, and so from what lies
 * around it, where that is small, for without it our variables could take 2 MiB of memory; or of a
 * committed one, where none are made then, and those that are there stay. */
void os_refuse_huge(void *start, size_t size);

/* Has a huge page made of a committed range that is one's size and place, and reads as zero.
 * Returns the nanoseconds it took, or 0: ordinary pages are there. In both cases none is made there
 * later by itself. */
uint64_t os_make_huge(void *start, size_t size);

/* Parts huge pages that reach over either end of a committed range whose contents are not needed
 * any more, so that purging it gives the memory back and does not only unmap it. */
void os_part_huge(void *start, size_t size);

/*
 * Sends the pages of a committed range to swap: 0 also where they stay, since there is no swap, or
 * others have them, too; -EINVAL: a kernel before 5.4, or pages are locked. What is touched comes
 * back by itself. os_cool: pages of the range are the first to go when memory is short. os_present:
 * a byte for each page of a committed range, 1 if it is in memory, else 0; on failure `out` is
 * undefined.
 */
int os_page_out(void *start, size_t size);
int os_cool(void *start, size_t size);
int os_present(const void *start, size_t size, uint8_t *out);

/* Names a reservation for /proc/PID/maps, where the kernel supports it; what it is extended by has
 * the name, too. `name` is static. Only while the process starts: a filter of system calls that it
 * sets later need not know of it. */
void os_name(void *start, size_t size, const char *name);

/* Bytes of [start, start + size), whole mappings, that are resident, as the kernel counts them in
 * smaps. */
size_t os_resident_bytes(const void *start, size_t size);

/* The number of the CPU the calling thread runs on; UINT_MAX where the kernel does not say. */
unsigned os_cpu(void);

/*
 * Which CPUs share a last-level cache: writes the group of each CPU below `cpus`, at most 255
 * groups with numbers from 0 in the order of their first CPUs; 0 for CPUs that share with none this
 * process may use. Returns how many groups; 1 where it cannot be known. While the process starts.
 */
unsigned os_cache_groups(uint8_t *group_of_cpu, unsigned cpus);

/* Milliseconds on a clock that never goes back; a few milliseconds coarse, and cheap. */
uint64_t os_clock_ms(void);

/* Nanoseconds since 1970, as the system's clock has it. */
uint64_t os_clock_real_ns(void);

/* Fills `out` with unpredictable bytes, from the kernel when it can. */
void os_random(void *out, size_t size);

/* Writes all of `words` to `fd`. */
int os_write(int fd, const char *words, size_t length);

/* Tells files apart: two numbers that are the same for the same open file. False when `fd` is not
 * open. */
bool os_file_identity(int fd, uint64_t out[2]);

/* The value of an environment variable, or NULL; also NULL before the C library has an environment.
 */
const char *os_environment(const char *name);

/*
 * Sleeps while *word == expected, at most `timeout_ms` (UINT64_MAX: no limit); may wake early, also
 * by signals. os_wake wakes at most `count` sleepers.
 */
void os_wait(_Atomic uint32_t *word, uint32_t expected, uint64_t timeout_ms);
void os_wake(_Atomic uint32_t *word, uint32_t count);

/*
 * Blocks the calling thread's signals, all but SIGTRAP, so that a program may step through itself,
 * and SIGSYS, so that it may answer system calls itself; *before is what was blocked. False, and
 * nothing is changed: no need, as the process has one thread, or the kernel refuses.
 */
bool os_signals_block(uint64_t *before);

void os_signals_restore(uint64_t before);

/* Whether the process has one thread as far as the C library knows, which cannot change but by the
 * calling one. False where it does not say. */
bool os_is_alone(void);

uint32_t os_process_id(void);
uint32_t os_parent_id(void); /* 0 where it cannot be seen from here */

/*
 * The kernel's number of the calling thread, from 1: what the C library noted when it made the
 * thread, without a system call, where it does that; or what the kernel says. os_thread_is_noted:
 * whether it did, so that the thread's storage is the C library's. os_task_has_ended:
 * whether no thread of this process or another that can be seen from here has the number any more;
 * one futex call. False where the kernel cannot say. A main thread that ended before others has
 * ended. A number may come back, later.
 */
uint32_t os_thread_id(void);
uint32_t os_thread_id_asked(void);
bool os_thread_is_noted(void);
bool os_task_has_ended(uint32_t id);

/* Sets the calling thread's errno, for the functions whose contract says so. */
void os_set_errno(int error);

/* Kernel calls that failed since the start; callers pass a result through os_counted to have it
 * counted. */
extern _Atomic uint64_t os_failed_calls;

ALWAYS_INLINE int os_counted(int error)
{
    if (unlikely(error != 0))
        fetch_add(&os_failed_calls, 1, RELAXED);
    return error;
}

/*
 * Hooks of the C library, installed once from the library's constructor.
 * os_on_thread_exit: `on_exit(value)` runs when a thread that armed a value ends. -ENOMEM, -EAGAIN:
 * cannot. os_on_fork: before the fork in the parent; after it in the parent; after it in the child.
 */
int os_on_thread_exit(void (*on_exit)(void *value));
int os_thread_exit_arm(void *value);
int os_on_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void));

#endif
