/*
 * calmalloc.h: the public interface of the general heap.
 *
 * The library also exports the standard names (malloc, free, operator new, ...); a program that is
 * linked with it or started with it preloaded needs nothing from this header. The calm_ names below
 * are for programs that want to be explicit, or that run beside another allocator.
 *
 * Unless a comment says otherwise: sizes are bytes; every function may be called from any thread,
 * at any time from before the first constructor to after the last destructor, in a fork's child,
 * but not from a signal handler that interrupted one of them; a failed request returns NULL and
 * sets errno to ENOMEM.
 */
#ifndef CALMALLOC_CALMALLOC_H
#define CALMALLOC_CALMALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header: numbers, and as calm_version() writes it. */
#define CALM_VERSION_MAJOR 0
#define CALM_VERSION_MINOR 1
#define CALM_VERSION_PATCH 0
#define CALM_VERSION_TEXT "0.1.0"

/* Returns "major.minor.patch" of the library that runs, which may differ from the header's. Cost:
 * none. */
const char *calm_version(void);

/*
 * Allocates `size` bytes; size 0 gives a unique block that must be freed like any other.
 * The block is aligned to 16 when size > 8, else to 8. Its contents are unspecified.
 * Above PTRDIFF_MAX: NULL, ENOMEM. Cost: about 25 instructions when the cache holds a block.
 */
void *calm_malloc(size_t size);

/* As calm_malloc(count * size), zeroed. A product that overflows gives NULL and ENOMEM. */
void *calm_calloc(size_t count, size_t size);

/*
 * Changes the size of `block`, in place where it can, else by moving the lesser of both sizes.
 * NULL behaves as calm_malloc(size); size 0 frees the block and returns NULL (glibc's reading of
 * the standard). On failure `block` is untouched.
 */
void *calm_realloc(void *block, size_t size);

/* As calm_realloc(block, count * size), with the overflow checked. On overflow NULL, ENOMEM, block
 * untouched. */
void *calm_reallocarray(void *block, size_t count, size_t size);

/*
 * Allocates `size` bytes aligned to `alignment`, a power of two of any magnitude that memory
 * allows. Any size is accepted. An alignment that is no power of two: NULL, EINVAL.
 */
void *calm_aligned_alloc(size_t alignment, size_t size);

/*
 * Frees `block`. NULL is ignored; errno is preserved.
 * A pointer that calmalloc never handed out is counted, named once on standard error, and ignored.
 * A pointer into a block, or one whose block is already free, stops the program with one sentence
 * (option `misuse`). Cost: about 30 instructions when the cache has room. Needs no memory, ever.
 */
void calm_free(void *block);

/*
 * Frees `block`, promising it was allocated with `size` bytes (C23). NULL is ignored, whatever
 * `size` is. A size that can be neither this block's nor a shrink in place stops the program:
 * "calmalloc: sized free of %p: has %zu, told %zu". A size that fits stands for the look whether a
 * block begins here: a pointer to the inside of one is not found, as it is by calm_free and by
 * free_sized. Cost: an instruction less than calm_free.
 */
void calm_free_sized(void *block, size_t size);

/* As calm_free_sized for a block from an aligned allocation; alignment and size as they were passed
 * there (C23). */
void calm_free_aligned_sized(void *block, size_t alignment, size_t size);

/* Returns how many bytes of `block` may be used, at least what was asked for; 0 for NULL or a
 * foreign pointer. */
size_t calm_usable_size(const void *block);

/* Returns the usable size that calm_malloc(size) would give, or 0 when it would fail for its size
 * alone. */
size_t calm_good_size(size_t size);

/*
 * Gives back to the kernel every page that holds no live block, as far as it can be reached: the
 * calling thread's cache, all batches, depots and free spans. Returns true when any page was given
 * back. Cost: system calls in proportion to what is free; other threads go on meanwhile.
 */
bool calm_trim(void);

/*
 * Whether moving `block` would help to empty its slab, 64 KiB of blocks of one size. True when the
 * slab is partly filled, by no more than 9/8 of what the partly filled slabs of its size and cohort
 * are on average, and is not the one that the next block comes from; so never of the fullest. Once
 * it is false of all blocks of a size and a cohort at most 8 of their slabs are partly filled.
 * False for blocks above 32 KiB, which have pages of their own, for sampled ones, for what is not a
 * block, and while another thread has the slab's lock. Free blocks that wait in caches count as
 * used: calm_trim() first empties the caller's. Cost: constant, one lock; some 15 ns.
 */
bool calm_should_move(const void *block);

/*
 * Where calm_should_move(block) is true: moves its usable bytes to the slab that the next block
 * comes from, frees `block`, and returns the new address; else returns `block`. Caches are passed
 * by: what malloc returns after a free is the block that was freed. Nobody may use `block`
 * meanwhile. The new one has its size class, cohort and natural alignment; NULL gives NULL. Needs
 * no memory; a bad pointer is reported as by calm_usable_size. Cost: constant but for the copy: two
 * locks.
 */
void *calm_move(void *block);

/*
 * Sends memory of live blocks that nobody has touched for `age_ms` milliseconds to swap; what is
 * touched later comes back by itself, at a page fault each. Returns the bytes that left memory.
 *
 * 0: all of it now, as before a long sleep. Else what is untouched is found by trial, since no
 * kernel tells: a call sends one page of each 64 KiB out; a later one, `age_ms` after its end,
 * sends the rest of each 64 KiB whose page has not come back, and begins other trials. A call that
 * comes sooner does nothing. So memory in use pays one fault for each 64 KiB and call, and a page
 * that is used beside 15 that are not may have to come back.
 *
 * Where the kernel has no swap, or keeps pages (locked ones, those shared with a forked child),
 * nothing leaves; they are marked as the first to go (MADV_COLD). Needs a kernel from 5.4 on; reads
 * /proc/self/pagemap, or asks mincore. Option `cold_ms` does the same unasked, while the program
 * frees. Cost: system calls, 20 microseconds for each 64 KiB in memory, and some 200 for each that
 * leaves; other threads go on meanwhile.
 */
size_t calm_page_out_cold(uint64_t age_ms);

/*
 * Says that the calling thread is about to sleep, as an event loop does before it waits: what its
 * cache holds goes to the depots, and what is due by now goes back to the kernel, all of it and not
 * a step with each free: free memory beyond what the program takes again within a second, and what
 * was idle for `purge_delay_ms`. The next requests refill the cache. Waits for no other thread.
 * With the option purge=trim only the cache is emptied. Cost: microseconds, and system calls in
 * proportion to what is due. A thread that will sleep for long wants calm_trim().
 */
void calm_idle(void);

/*
 * Has `callback` called, by how many bytes, before a request is refused for a limit, each time, and
 * when one passes the soft limit (`soft_limit_mb`, or what limit=cgroup makes of the group's
 * limits; else the hard one). NULL: no more. Before that the heap gives back what is free; where
 * that is enough nobody is called, nor for a request that is longer than the limit. It runs at the
 * end of the request, in the thread that asked, which holds nothing of the heap: it may free,
 * allocate, trim and take locks that no caller of the heap holds. A request that was refused is
 * then tried once more (a `realloc` a few times, each with a call); one that was granted has
 * its block. The callback must return, and must not free or resize the block that a `realloc` is
 * about. Not called from within itself, in the same thread; several threads may be in it at once.
 * While more is charged than the soft limit and nothing is refused it comes again after 100 ms, or
 * when a 64th of the limit more is charged than it left. A compiler may know that malloc calls
 * nothing of the program's (glibc says so), and keep static variables of a file in registers across
 * it: what the callback shares with code that allocates is to be atomic or volatile.
 * Cost, while one is set: some twenty instructions each time a cache asks for more.
 */
void calm_on_limit(void (*callback)(size_t bytes_over));

/*
 * Returns the bytes that the heap has committed: readable and writable, touched or not, the books
 * included. It is what the kernel counts of the heap against RLIMIT_DATA and its rules of
 * overcommit, to 1 % at any moment; memory that goes back to the kernel stays committed. Of pools,
 * static data, and what a profile is written from, nothing. Cost: one load.
 */
size_t calm_committed(void);

/*
 * Returns the bytes that blocks and dirty free memory take, which options `limit_mb` and
 * `soft_limit_mb` bound: no more than so many may be resident, and the books, some 2 %. A block
 * counts whether it is touched or not, above 32 KiB in steps of 8 to 64 KiB; free pages between
 * small blocks count though they went back. Cost: some five loads.
 */
size_t calm_charged(void);

/* What the heap holds. Bytes unless said. allocated <= active <= mapped. */
struct calm_stats {
    size_t
        allocated_bytes; /* in live blocks, by their usable size, and in caches: see cached_bytes */
    size_t cached_bytes; /* of these, free blocks that wait in caches and in batches */
    size_t cached_limit_bytes; /* what caches and batches may hold at most, as things are */
    size_t active_bytes;       /* in slabs and large blocks, free parts of slabs included */
    size_t mapped_bytes;       /* of address space that is readable and writable */
    size_t reserved_bytes;     /* these, and the guards around them  */
    size_t resident_bytes;     /* of pages the kernel holds for us, metadata included, as the kernel
                                  counts it */
    size_t metadata_bytes;     /* of the mapped bytes, bookkeeping  */
    size_t dirty_bytes;        /* in free spans that wait to be given back     */
    size_t purged_bytes;       /* given back since the start    */
    uint64_t foreign_frees;    /* frees of pointers that were never ours */
    uint64_t misuses; /* double, interior and wrongly sized frees that were counted, not fatal */
    uint64_t failed_calls;         /* requests that returned NULL    */
    uint64_t failed_os_calls;      /* kernel calls that failed */
    size_t threads;                /* that have a cache of their own */
    size_t cohorts;                /* cohorts in use           */
    size_t profile_on;             /* 1 while requests are sampled, else 0 */
    uint64_t profile_samples;      /* taken so far */
    uint64_t profile_samples_lost; /* for which the profiler's tables had no room */
    /* With sites=intern, else 0: */
    uint64_t interned_sites; /* that have, or had, a cohort of their own */
    uint64_t retired_sites;  /* of these, whose module was unloaded */
    uint64_t overflow_sites; /* that share the overflow cohort      */
    size_t owned_bytes;      /* of address space that is some cohort's for ever */
};

/* Fills `*out`. Cost: walks depots and asks the kernel for resident pages: milliseconds on large
 * heaps. */
void calm_stats_read(struct calm_stats *out);

/*
 * What the blocks of one cohort hold: blocks of up to 32 KiB that were asked for at the same sites
 * (option `sites`). Larger blocks have no cohort.
 */
struct calm_cohort {
    unsigned cohort; /* its number, from 0 */
    bool is_sampled; /* not of sites: the blocks that the profiler sampled, from everywhere */
    size_t allocated_blocks; /* live, or in caches: see cached_blocks; exact but for that */
    size_t allocated_bytes;  /* of these, by usable size */
    size_t cached_blocks;    /* free blocks that wait in caches and in batches for this cohort */
    size_t cached_bytes;
    size_t active_bytes; /* in slabs, their free parts included */
};

/*
 * Fills `out` with the cohorts that have slabs, those that hold most bytes first, `capacity` of
 * them at most. Returns how many there are, which may be more. Cost: walks depots and caches, some
 * 10 microseconds for each cohort and thread.
 */
size_t calm_cohorts_read(struct calm_cohort *out, size_t capacity);

/*
 * Writes statistics to the file descriptor `fd`, as text for people or as one JSON object.
 * Allocates nothing. Returns 0, or a positive errno value when writing failed.
 */
int calm_stats_text(int fd);
int calm_stats_json(int fd);

/*
 * Writes to the file descriptor `fd` which addresses asked for memory, as far as samples of stacks
 * have told, as one JSON object: for each module its path and its sites, which are offsets in the
 * file, with `kind` "site", "wrapper" (its callers are the sites) or "opaque" (a wrapper whose
 * callers cannot be told). Empty while option `wrappers` says not to look. Allocates nothing.
 * Returns 0 or a positive errno value.
 */
int calm_sites_json(int fd);

/*
 * Checks every invariant of the whole heap. Returns NULL when all hold, else the number and name of
 * the first that does not (a static string). Other threads must not allocate meanwhile. Cost:
 * proportional to the heap.
 */
const char *calm_verify(void);

/*
 * Reads and writes an option by its name in CALM_OPTIONS. Values are unsigned numbers, as `calm
 * options` lists them. Returns 0, or ENOENT (no such option), EINVAL (value out of range) or EPERM
 * (fixed once the heap is in use).
 */
int calm_option_get(const char *name, uint64_t *out);
int calm_option_set(const char *name, uint64_t value);

/*
 * Samples requests from now on: one in `bytes_a_sample` bytes on average, 512 KiB for 0; each with
 * its stack of calls. From 512 KiB up a thread whose samples come too thick takes fewer, which
 * count for more. The same `seed`, but for 0, draws the same samples for the same requests of a
 * process with one thread, from its start on. Samples of earlier starts are kept. Returns 0, EBUSY
 * (it is on already), EINVAL (more than 256 GiB) or ENOMEM. Cost: while it is on, some 20 ns a
 * request, and microseconds a sample.
 */
int calm_profile_start(size_t bytes_a_sample, uint64_t seed);

/* Samples no more requests. Blocks that were sampled are still known until they are freed. */
void calm_profile_stop(void);

/*
 * Writes what was sampled so far to the file descriptor `fd`, as "pprof" (compressed, what Go's
 * pprof reads), "heap_v2" (text, gperftools' format) or "collapsed" (text for flame graphs).
 * Allocates nothing; may be called from a signal handler. Returns 0, EINVAL (no such format) or a
 * positive errno value when writing failed.
 */
int calm_profile_dump(int fd, const char *format);

#ifdef __cplusplus
}
#endif

#endif
