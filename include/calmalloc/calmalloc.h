/*
 * calmalloc.h: the public interface of the general heap.
 *
 * The library also exports the standard names (malloc, free, operator new, ...); a program linked
 * with it, or started with it preloaded, does not need this header. The calm_ names are for
 * programs that name the allocator explicitly, or that run beside another allocator.
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

/* The version of this header, as numbers and as calm_version() returns it. */
#define CALM_VERSION_MAJOR 0
#define CALM_VERSION_MINOR 1
#define CALM_VERSION_PATCH 0
#define CALM_VERSION_TEXT "0.1.0"

/* Returns "major.minor.patch" of the library that runs; it may differ from the header's. Cost:
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
 * Changes the size of `block`, in place where possible, else by moving the lesser of both sizes.
 * NULL behaves as calm_malloc(size); size 0 frees the block and returns NULL (glibc's reading of
 * the standard). On failure `block` is untouched.
 */
void *calm_realloc(void *block, size_t size);

/* As calm_realloc(block, count * size), with overflow checked. On overflow: NULL, ENOMEM, block
 * untouched. */
void *calm_reallocarray(void *block, size_t count, size_t size);

/*
 * Allocates `size` bytes aligned to `alignment`, any power of two that memory allows. Any size is
 * accepted. An alignment that is not a power of two: NULL, EINVAL.
 */
void *calm_aligned_alloc(size_t alignment, size_t size);

/*
 * Frees `block`. NULL is ignored; errno is preserved. A pointer that calmalloc never handed out is
 * counted, named once on standard error, and ignored. A pointer into a block, or to a block that is
 * already free, stops the program with one sentence (option `misuse`). Cost: about 30 instructions
 * when the cache has room. Never needs memory.
 */
void calm_free(void *block);

/*
 * Frees `block`, which was allocated with `size` bytes (C23). NULL is ignored, whatever `size` is.
 * A size that is neither this block's nor a shrink in place stops the program: "calmalloc: sized
 * free of %p: has %zu, told %zu". A size that fits replaces the check that a block begins here: a
 * pointer to the inside of a block is not found; calm_free and free_sized find it. Cost: an
 * instruction less than calm_free.
 */
void calm_free_sized(void *block, size_t size);

/* As calm_free_sized for a block from an aligned allocation, with that call's alignment and size
 * (C23). */
void calm_free_aligned_sized(void *block, size_t alignment, size_t size);

/* Returns the usable bytes of `block`, at least the requested size; 0 for NULL or a foreign
 * pointer. */
size_t calm_usable_size(const void *block);

/* Returns the usable size that calm_malloc(size) would give; 0 when it would fail for its size
 * alone. */
size_t calm_good_size(size_t size);

/*
 * Returns to the kernel every page without a live block, as far as it can be reached: the calling
 * thread's cache, all batches, depots and free spans. Returns true when any page was returned.
 * Cost: system calls in proportion to the free memory; other threads continue meanwhile.
 */
bool calm_trim(void);

/*
 * Whether moving `block` would help to empty its slab: 64 KiB of blocks of one size. True when the
 * slab is partly filled, by at most 9/8 of the average of the partly filled slabs of its size and
 * cohort, and the next block does not come from it; so never for the fullest. Once false for all
 * blocks of a size and cohort, at most 8 of their slabs are partly filled. False for blocks above
 * 32 KiB, which have pages of their own, for sampled blocks, for an address that is no block, and
 * while another thread holds the slab's lock. Free blocks in caches count as used: calm_trim()
 * first empties the caller's. Cost: constant, one lock; some 15 ns.
 */
bool calm_should_move(const void *block);

/*
 * If calm_should_move(block) is true: moves its usable bytes to the slab of the next block, frees
 * `block`, and returns the new address; else returns `block`. Bypasses caches, from which malloc
 * would return the block just freed. No thread may use `block` meanwhile. The new block has the old
 * one's size class, cohort and natural alignment; NULL gives NULL. Needs no memory; a bad pointer
 * is reported as by calm_usable_size. Cost: constant but for the copy: two locks.
 */
void *calm_move(void *block);

/*
 * Swaps out memory of live blocks that was not touched for `age_ms` milliseconds. A later access
 * brings its page back, at a page fault each. Returns the bytes that left memory.
 *
 * 0: swaps out all of it now, as before a long sleep. Else untouched memory is found by trial,
 * since no kernel reports it: a call swaps out one page of each 64 KiB; a later call, `age_ms`
 * after the first one's end, swaps out the rest of each 64 KiB whose page has not come back, and
 * begins other trials. An earlier call does nothing. So memory in use costs one fault for each 64
 * KiB and call, and a used page beside 15 unused ones may have to come back.
 *
 * Where the kernel has no swap, or keeps pages (locked ones, those shared with a forked child),
 * none leaves; they are marked as the first to go (MADV_COLD). Needs a kernel from 5.4 on; reads
 * /proc/self/pagemap, or asks mincore. Option `cold_ms` does so unasked, while the program frees.
 * Cost: system calls, 20 microseconds for each 64 KiB in memory, and some 200 for each that leaves;
 * other threads continue meanwhile.
 */
size_t calm_page_out_cold(uint64_t age_ms);

/*
 * Call before the calling thread sleeps, as an event loop does before it waits. Flushes the
 * thread's cache to the depots, and returns to the kernel all memory that is due, not a step with
 * each free: free memory beyond what the program takes again within a second, and memory idle for
 * `purge_delay_ms`. The next requests refill the cache. Waits for no other thread. With option
 * purge=trim it only flushes the cache. Cost: microseconds, and system calls in proportion to the
 * memory due. Before a long sleep, use calm_trim().
 */
void calm_idle(void);

/*
 * Sets the function called, with the bytes in excess, each time before a request is refused for a
 * limit, and when a request passes the soft limit (`soft_limit_mb`, or the limit that limit=cgroup
 * derives from the group's; without a soft limit, the hard one). NULL: none. The heap first returns
 * its free memory; if that suffices there is no call, nor for a request larger than the limit.
 *
 * The callback runs at the end of the request, in the requesting thread, which holds no lock of the
 * heap: it may free, allocate, trim and take locks that no caller of the heap holds. A refused
 * request is then tried once more (a `realloc` a few times, each with a call); a granted one has
 * its block. The callback must return, and must not free or resize the block of a running
 * `realloc`. It is not called from within itself in one thread; several threads may be in it at
 * once. While more is charged than the soft limit and nothing is refused, it is called again after
 * 100 ms, or when the charge grew by a 64th of the limit since it returned.
 *
 * A compiler may assume that malloc calls no function of the program (glibc says so), and keep
 * static variables of a file in registers across it: data that the callback shares with code that
 * allocates must be atomic or volatile. Cost, while one is set: some twenty instructions each time
 * a cache asks for more.
 */
void calm_on_limit(void (*callback)(size_t bytes_over));

/*
 * Returns the bytes that the heap has committed: readable and writable, touched or not, including
 * metadata. The kernel counts these bytes, to 1 % at any moment, against RLIMIT_DATA and for its
 * overcommit rules; memory returned to the kernel stays committed. Excludes pools, static data, and
 * the profiler's buffers for writing. Cost: one load.
 */
size_t calm_committed(void);

/*
 * Returns the bytes of blocks and dirty free memory, which options `limit_mb` and `soft_limit_mb`
 * bound: resident memory is at most this, plus some 2 % of metadata. A block counts whether touched
 * or not, above 32 KiB in steps of 8 to 64 KiB; free pages between small blocks count even when
 * they were returned to the kernel. Cost: some five loads.
 */
size_t calm_charged(void);

/* The heap's statistics, in bytes unless noted. allocated <= active <= mapped. */
struct calm_stats {
    size_t allocated_bytes;    /* in live blocks, by usable size, and in caches: see cached_bytes */
    size_t cached_bytes;       /* of these, free blocks in caches and in batches */
    size_t cached_limit_bytes; /* the most that caches and batches may hold now */
    size_t active_bytes;       /* in slabs and large blocks, including free parts of slabs */
    size_t mapped_bytes;       /* of readable and writable address space */
    size_t reserved_bytes;     /* of all address space held, mapped or not */
    size_t resident_bytes;     /* of resident pages, including metadata, by the kernel's count */
    size_t metadata_bytes;     /* of the mapped bytes, metadata     */
    size_t dirty_bytes;        /* in free spans, to be returned to the kernel  */
    size_t purged_bytes;       /* returned to the kernel since the start */
    uint64_t foreign_frees;    /* frees of pointers that were never ours */
    uint64_t misuses; /* double, interior and wrongly sized frees that did not stop the program */
    uint64_t failed_calls;         /* requests that returned NULL    */
    uint64_t failed_os_calls;      /* kernel calls that failed */
    size_t threads;                /* with a cache of their own */
    size_t cohorts;                /* cohorts in use           */
    size_t profile_on;             /* 1 while the profiler runs, else 0 */
    uint64_t profile_samples;      /* taken so far */
    uint64_t profile_samples_lost; /* for lack of room in the profiler's tables */
    /* With sites=intern, else 0: */
    uint64_t interned_sites; /* that have or had a cohort of their own */
    uint64_t retired_sites;  /* of these, with an unloaded module */
    uint64_t overflow_sites; /* in the shared overflow cohort       */
    size_t owned_bytes;      /* of address space owned by a cohort for ever */
};

/* Fills `*out`. Cost: walks depots and asks the kernel for resident pages: milliseconds on a large
 * heap. */
void calm_stats_read(struct calm_stats *out);

/*
 * The blocks of one cohort: blocks of up to 32 KiB that were requested at the same sites (option
 * `sites`). Larger blocks have no cohort.
 */
struct calm_cohort {
    unsigned cohort;         /* its number, from 0 */
    bool is_sampled;         /* the cohort of sampled blocks, from all sites */
    size_t allocated_blocks; /* live or cached: see cached_blocks; else exact */
    size_t allocated_bytes;  /* of these, by usable size */
    size_t cached_blocks;    /* free blocks in caches and in batches for this cohort */
    size_t cached_bytes;
    size_t active_bytes; /* in slabs, including their free parts */
};

/*
 * Fills `out` with the cohorts that have slabs, those with most bytes first, at most `capacity`.
 * Returns their number, which may be larger. Cost: walks depots and caches, some 10 microseconds
 * for each cohort and thread.
 */
size_t calm_cohorts_read(struct calm_cohort *out, size_t capacity);

/*
 * Writes statistics to the file descriptor `fd`, as text for people or as one JSON object.
 * Allocates nothing. Returns 0, or a positive errno value if a write failed.
 */
int calm_stats_text(int fd);
int calm_stats_json(int fd);

/*
 * Writes the request sites that stack samples have found to the file descriptor `fd`, as one JSON
 * object: for each module its path and its sites, which are offsets in the file, with `kind`
 * "site", "wrapper" (its callers are the sites) or "opaque" (a wrapper whose callers cannot be
 * told). Empty while option `wrappers` is off. Allocates nothing. Returns 0 or a positive errno
 * value.
 */
int calm_sites_json(int fd);

/*
 * Checks every invariant of the whole heap. Returns NULL when all hold, else the number and name of
 * the first violated one (a static string). Other threads must not allocate meanwhile. Cost:
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
 * its call stack. From 512 KiB up, a thread with too many samples takes fewer, which count for
 * more. The same nonzero `seed` draws the same samples for the same requests of a process with one
 * thread, from its start on. Samples of earlier starts are kept. Returns 0, EBUSY (already on),
 * EINVAL (more than 256 GiB) or ENOMEM. Cost: while on, some 20 ns a request, and microseconds a
 * sample.
 */
int calm_profile_start(size_t bytes_a_sample, uint64_t seed);

/* Stops sampling. Sampled blocks stay known until they are freed. */
void calm_profile_stop(void);

/*
 * Writes the samples so far to the file descriptor `fd`, as "pprof" (compressed, for Go's pprof),
 * "heap_v2" (text, gperftools' format) or "collapsed" (text for flame graphs). Allocates nothing;
 * may be called from a signal handler. Returns 0, EINVAL (no such format) or a positive errno value
 * if a write failed.
 */
int calm_profile_dump(int fd, const char *format);

#ifdef __cplusplus
}
#endif

#endif
