/*
 * pool.h: pools with a contract: memory claimed once, declared block sizes, a stated worst case.
 *
 * A pool has one owner, the thread that allocates from it; any thread may free into it. After
 * calm_pool_create no operation makes a system call, takes a lock, faults a page in (unless the
 * pool is lazy) or loops over data. Blocks have no header; metadata is separate.
 *
 * Units: sizes are bytes. Threads: "owner" is the thread that uses the pool at the time; it may
 * change, if the old and the new one synchronise. "Any thread" means at any time between create and
 * destroy. None of these functions touches errno or needs the general heap; only create, init and
 * destroy need the kernel. C11 and C++11, with the compilers' __atomic built-ins.
 *
 * Link with calmalloc, or with the small static library calmpool alone. Worst cases of each
 * operation: calm_pool_bound. Design: docs/design/pool.md; usage: docs/pool.md.
 */
#ifndef CALMALLOC_POOL_H
#define CALMALLOC_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Never blocks, allocates from the system or takes a lock: clang 19 and later make this part of the
 * function's type, so that from clang 20 on -Wfunction-effects lets such functions call these.
 */
#ifdef __has_attribute
#if __has_attribute(nonblocking)
#define CALM_NONBLOCKING __attribute__((nonblocking))
#endif
#endif
#ifndef CALM_NONBLOCKING
#define CALM_NONBLOCKING
#endif

/* Limits. */
enum {
    CALM_POOL_CLASSES_MAX = 64,
    CALM_POOL_BLOCK_MAX = 1 << 20,  /* bytes of a block */
    CALM_POOL_BLOCKS_MAX = 1 << 24, /* of one class     */
    CALM_POOL_ALIGN_MAX = 4096,     /* of a block       */
    CALM_POOL_MEMORY_ALIGN = 64,    /* of the caller's memory */
    CALM_POOLS_MAX = 1024           /* of which the heap's free knows, in a process */
};

/* Flags of a pool. */
enum {
    CALM_POOL_LAZY = 1, /* pages are mapped at first touch; otherwise all from the start */
    CALM_POOL_LOCK = 2, /* pages are locked into memory (mlock)                                  */
    CALM_POOL_HUGE = 4, /* the mapping asks for huge pages                                       */
    CALM_POOL_SPILL = 8 /* an exhausted class takes from the next larger one with the alignment */
};

/* Errors. 0 is success; calm_strerror has a sentence for each. */
enum calm_error {
    CALM_OK = 0,
    /* of a configuration */
    CALM_ENULL,         /* a pointer that must not be NULL is                     */
    CALM_ECLASSES,      /* no class, or more than CALM_POOL_CLASSES_MAX           */
    CALM_EBLOCK_ZERO,   /* a block size of 0                                      */
    CALM_EBLOCK_LARGE,  /* a block size above CALM_POOL_BLOCK_MAX                 */
    CALM_EORDER,        /* block sizes that do not ascend                         */
    CALM_ESHARE_ZERO,   /* a class with a share of 0 %                            */
    CALM_ESHARES,       /* shares that do not sum to 100                          */
    CALM_ESHARE_SMALL,  /* a share too small for one block                        */
    CALM_EBLOCKS,       /* a class of more than CALM_POOL_BLOCKS_MAX blocks       */
    CALM_EBYTES_ZERO,   /* a pool of 0 bytes                                      */
    CALM_EBYTES_SMALL,  /* fewer bytes than the metadata, or the `blocks`, need */
    CALM_EBYTES_LARGE,  /* more bytes than an address space holds                 */
    CALM_EFLAGS,        /* an unknown flag                                        */
    CALM_EFLAGS_LAZY,   /* CALM_POOL_LAZY with CALM_POOL_LOCK: locked pages are mapped at once */
    CALM_EFLAGS_MEMORY, /* CALM_POOL_HUGE with the caller's memory                */
    CALM_EMEMORY_ALIGN, /* the caller's memory is not aligned to CALM_POOL_MEMORY_ALIGN */
    CALM_EMEMORY_END,   /* the caller's memory would pass the end of the address space */
    /* of the machine */
    CALM_ENOMEM, /* the kernel has no memory or no address space left      */
    CALM_ELOCK,  /* the kernel refuses to lock the pages                   */
    CALM_EHUGE,  /* the kernel has no huge pages to ask for                */
    CALM_EPOOLS, /* CALM_POOLS_MAX pools exist                             */
    /* of a block */
    CALM_EFOREIGN,    /* no block of this pool: outside all of its blocks       */
    CALM_EINTERIOR,   /* inside a block, not at its start                       */
    CALM_EMISALIGNED, /* as CALM_EINTERIOR, and not aligned as blocks are       */
    CALM_EDOUBLE,     /* the block is already free                              */
    /* of a region */
    CALM_EMARK, /* a mark above the bytes in use                          */
    /* of a configuration, and of a build */
    CALM_EBLOCKS_ZERO, /* a class of 0 blocks                                    */
    CALM_EBOTH,        /* both `percent` and `blocks`                            */
    CALM_EUNCHECKED,   /* the costs of its operations were not computed          */
    CALM_ERROR_COUNT
};

/* Returns one sentence for a CALM_E* code, a static string; also for any other number. */
const char *calm_strerror(int code);

/* A pool. Its fields are private. */
typedef struct calm_pool calm_pool;

/* A pool's configuration. Classes are declared by their share of the pool, `percent`, or by their
 * number of blocks, `blocks`: one of the two is NULL. */
struct calm_pool_config {
    const size_t *block_bytes; /* ascending, 1 to CALM_POOL_CLASSES_MAX of them, each 1 to 1 MiB  */
    const uint32_t *percent;   /* each class's share of `bytes`; at least 1, the sum is 100       */
    size_t classes;            /* number of classes                                               */
    size_t bytes;              /* of the whole pool, including metadata; claimed once. 0, with
                                  `blocks` and without `memory`: the bytes needed; with
                                  `memory`, take calm_pool_limits.bytes of this
                                  configuration without `memory` */
    unsigned flags;            /* CALM_POOL_ flags                                                */
    void *memory;              /* NULL: mapped; else the pool lives strictly inside these `bytes` */
    const uint32_t *blocks;    /* of each class, 1 to CALM_POOL_BLOCKS_MAX                        */
};

/*
 * Makes a pool from `config`, owned by the calling thread. Returns 0 and the pool, or a code; then
 * *out is untouched and nothing remains. `config` is not needed afterwards.
 *
 * Each class's share pays for its blocks and for their metadata, 2.04 bits a block and a few cache
 * lines. A block takes its declared size rounded up to 8 bytes (below 8: to a power of two), and is
 * aligned to the largest power of two that divides the rounded size, at most to 4096: declare a
 * multiple of 16 where 16 is needed. Cost: the kernel maps and fills `bytes`; not for time-critical
 * code.
 *
 * With CALM_POOL_LOCK the kernel locks whole pages, and neither a failed create nor destroy leaves
 * them locked, even if another part of the program locked them before: in the caller's `memory`,
 * give a locked pool pages of its own.
 */
int calm_pool_create(const struct calm_pool_config *config, calm_pool **out);

/* As calm_pool_create with mapped memory and no flags. */
int calm_pool_init(calm_pool **out, const size_t *block_bytes, size_t classes,
                   const uint32_t *percent, size_t bytes);

/*
 * Destroys the pool: its blocks are gone, its addresses foreign again; one munmap. NULL is ignored.
 * No thread may be inside a call on this pool, or begin one, including the heap's free of one of
 * its blocks; calls on other pools and on the heap may continue.
 */
void calm_pool_destroy(calm_pool *pool);

/*
 * Allocates a block of the smallest class that holds `bytes`; 0 counts as 1. NULL: that class is
 * exhausted (with CALM_POOL_SPILL, the next one too), or `bytes` is above the largest class.
 * Contents are unspecified. The block is the class's free block at the lowest address, as far as
 * remote frees are known. Owner only. Cost: straight code, the same for NULL; see calm_pool_bound.
 */
void *calm_pool_alloc(calm_pool *pool, size_t bytes) CALM_NONBLOCKING;

/* As calm_pool_alloc, from the smallest class that also has the alignment. NULL also: `align` is
 * not a power of two, or no class large enough has it. */
void *calm_pool_alloc_aligned(calm_pool *pool, size_t bytes, size_t align) CALM_NONBLOCKING;

/*
 * Frees `block`. Returns 0; or CALM_EFOREIGN, CALM_EINTERIOR, CALM_EMISALIGNED or CALM_EDOUBLE, and
 * nothing is changed. NULL is ignored. Owner only. Cost: straight code; one locked instruction once
 * remote frees were announced, none before. Least for the block handed out last.
 */
int calm_pool_free(calm_pool *pool, void *block) CALM_NONBLOCKING;

/*
 * As calm_pool_free, from any thread, including the owner's. Wait-free on x86-64: one to four
 * locked instructions, each of which sets one bit. Of two threads that free a block at once, one
 * gets CALM_EDOUBLE. A free of a block that is already free, at the very moment at which the owner
 * hands the block out, may return CALM_OK; the owner's free of the block may then return CALM_OK,
 * too.
 *
 * The owner finds the block when its class has no other at hand: calm_pool_alloc then inspects
 * remote frees, before it begins unused memory or returns NULL. Bits tell which words to inspect; a
 * bit that is still set although the owner has emptied the word, since it did so while the word's
 * block was being freed, costs a NULL. So: while a block is free whose calm_pool_free_remote has
 * returned, at most calm_pool_limits.remote_calls calls that inspect its class are needed until one
 * gets a block, and three more for each thread that is inside calm_pool_free_remote meanwhile. With
 * CALM_POOL_SPILL, calls for the next smaller class that borrow from this class count as such
 * calls.
 *
 * The first call announces remote frees. NULL only announces: a program whose owner and another
 * thread might free one block at once calls this with NULL first, since a double free is reported
 * only after the owner has seen the announcement. Either way the block is free once.
 */
int calm_pool_free_remote(calm_pool *pool, void *block) CALM_NONBLOCKING;

/*
 * Takes back at most 64 remote frees, of the next class in turn. For idle moments, so that
 * calm_pool_watch counts them; calm_pool_alloc takes them back by itself. Returns how many. Owner
 * only. Cost: as calm_pool_alloc.
 */
uint32_t calm_pool_drain(calm_pool *pool) CALM_NONBLOCKING;

/* Whether `address` is in the range of the pool's blocks. Any thread. Cost: a few instructions. */
bool calm_pool_owns(const calm_pool *pool, const void *address) CALM_NONBLOCKING;

/* The usable bytes of `block`, at least the requested size; 0 for an address that is no live block
 * of this pool. Any thread. */
size_t calm_pool_usable_size(const calm_pool *pool, const void *block) CALM_NONBLOCKING;

/*
 * One cache line of a pool that any core may read at any time. The owner writes it in each call
 * that changes something, each field by itself: read fields with calm_pool_watch_free and the like,
 * or with __atomic_load_n. Two fields may be of two moments, one call apart.
 *
 * Freshness: allocations and the owner's frees are in it when the call returns. Remote frees are in
 * it once the owner has taken them back, so at least as many blocks are free as it says.
 */
struct calm_pool_occupancy {
    uint32_t remote_backlog; /* remote frees that the last inspection of each class found */
    uint16_t classes;
    uint16_t is_coded; /* 0: known.blocks holds; 1: known.code, with more than 14 classes */
    union {
        uint32_t blocks[14]; /* free blocks by class */
        uint8_t code[56];    /* 4 bits a class, low half first: 0 none, n at least 2^(n-1) */
    } known;
};

/* The pool's watch line; valid until destroy. Any thread. Cost: an address. */
const struct calm_pool_occupancy *calm_pool_watch(const calm_pool *pool);

/* Free blocks of a class: exact as of the owner's last call, or, when coded, a lower bound above
 * half of the number, up to 16384. 0 past the last class. Any thread. */
static inline uint32_t calm_pool_watch_free(const struct calm_pool_occupancy *watch, size_t index)
{
    unsigned code;
    if (index >= watch->classes)
        return 0;
    if (!watch->is_coded)
        return __atomic_load_n(&watch->known.blocks[index], __ATOMIC_RELAXED);
    code = __atomic_load_n(&watch->known.code[index / 2], __ATOMIC_RELAXED);
    code = code >> (index % 2 * 4) & 15u;
    return code == 0 ? 0 : (uint32_t)1 << (code - 1);
}

/* Bytes in the free blocks of all classes, as of the owner's last call. `watch` is a pool's own
 * line, not a copy. Any thread. Cost: a loop over the classes. */
uint64_t calm_pool_watch_bytes(const struct calm_pool_occupancy *watch);

/* Remote frees that the last inspection of each class found. Any thread. */
static inline uint32_t calm_pool_watch_backlog(const struct calm_pool_occupancy *watch)
{
    return __atomic_load_n(&watch->remote_backlog, __ATOMIC_RELAXED);
}

/* Statistics of one class since create. */
struct calm_pool_class_stats {
    size_t block_bytes;    /* declared                                             */
    size_t stride_bytes;   /* bytes that a block takes                             */
    uint32_t blocks;       /* that the class has                                   */
    uint32_t free_blocks;  /* known to the owner                                   */
    uint32_t least_free;   /* the fewest ever: blocks that the class never needed  */
    uint64_t allocs;       /* blocks handed out                                    */
    uint64_t remote_frees; /* taken back                                           */
};

/* Statistics of a pool since create. */
struct calm_pool_stats {
    size_t classes;
    uint64_t failed;  /* requests that returned NULL */
    uint64_t misuses; /* frees that returned a code; of all threads */
    uint64_t spills;  /* requests that the next larger class served */
    struct calm_pool_class_stats by_class[CALM_POOL_CLASSES_MAX];
};

/* Fills *out. Owner only. Cost: a loop over the classes. */
void calm_pool_stats_read(const calm_pool *pool, struct calm_pool_stats *out);

/* The most that one call of an operation can cost, in any state of the pool. */
struct calm_pool_cost {
    uint32_t instructions; /* executed         */
    uint32_t lines;        /* distinct cache lines of 64 bytes read or written */
    uint32_t branches;     /* executed         */
};

/* The capacity of a configuration, and the most that its operations can cost. */
struct calm_pool_limits {
    size_t bytes;        /* the whole pool                                         */
    size_t usable_bytes; /* of all blocks, by declared sizes                       */
    size_t lost_bytes;   /* the rest: metadata, rounding, and ends of shares       */
    size_t meta_bytes;   /* of the lost ones, metadata                             */
    size_t stride_bytes[CALM_POOL_CLASSES_MAX];
    uint32_t blocks[CALM_POOL_CLASSES_MAX];
    uint32_t remote_calls[CALM_POOL_CLASSES_MAX]; /* see calm_pool_free_remote */
    int cost_code; /* CALM_OK; CALM_EUNCHECKED: the costs are 0, since not computed */
    struct calm_pool_cost alloc;
    struct calm_pool_cost alloc_aligned;
    struct calm_pool_cost free;
    struct calm_pool_cost free_remote;
    struct calm_pool_cost drain;
};

/*
 * Computes the capacity of a pool with this configuration and the most that its operations can
 * cost, before anything runs. Returns 0, or the code that calm_pool_create would return for the
 * configuration. Makes no system call. Any thread.
 *
 * Costs are those of the linked object code: `python3 tools/bound --stamp FILE` computes them and
 * writes them into the file. The CMake build does so for its libraries, and the Rust crate where it
 * finds Python and objdump. Any archive, shared library or program may be stamped, before its
 * symbols are stripped. Otherwise cost_code is CALM_EUNCHECKED.
 */
int calm_pool_bound(const struct calm_pool_config *config, struct calm_pool_limits *out);

/*
 * A region: memory for phases. Blocks are allocated one after the other and released together, back
 * to a mark. One thread at a time. The struct is public so that it can be placed anywhere; its
 * fields are private.
 */
struct calm_region {
    char *start;
    size_t bytes;
    size_t used_bytes;
    size_t most_bytes; /* most bytes in use since init */
};

/* A point to which a region can be released. */
typedef size_t calm_region_mark;

/* Begins a region in `memory`, for example a pool's block. CALM_ENULL, CALM_EMEMORY_END, or 0. */
int calm_region_init(struct calm_region *region, void *memory, size_t bytes);

/* Allocates `bytes`, aligned to `align`, a power of two. NULL: no room, or a bad alignment. Cost:
 * some twenty instructions. */
void *calm_region_alloc(struct calm_region *region, size_t bytes, size_t align) CALM_NONBLOCKING;

/* calm_region_top returns the present mark; calm_region_release releases all blocks allocated
 * since. CALM_EMARK: the region was released below the mark meanwhile; nothing is changed. */
calm_region_mark calm_region_top(const struct calm_region *region);
int calm_region_release(struct calm_region *region, calm_region_mark mark);

/*
 * A bounded heap, for programs that cannot declare sizes: blocks of any size up to the heap's, in
 * constant time (two-level segregated fit; Masmano, Ripoll, Crespo and Real, ECRTS 2004), with
 * metadata separate from the blocks. Blocks are whole units of 64 bytes and aligned to 64. One
 * thread at a time.
 */
typedef struct calm_bounded calm_bounded;

/* Size and alignment of the units of a bounded heap, in bytes. */
enum { CALM_BOUNDED_UNIT = 64 };

/*
 * Makes a heap inside `bytes` of `memory`, which is aligned to 64 and stays the caller's. Returns 0
 * and the heap, or CALM_ENULL, CALM_EMEMORY_ALIGN, CALM_EMEMORY_END, CALM_EBYTES_SMALL,
 * CALM_EBYTES_LARGE (above 1 GiB of units, besides their metadata). Cost: writes the metadata once.
 */
int calm_bounded_create(void *memory, size_t bytes, calm_bounded **out);

/*
 * Allocates at least `bytes`; 0 counts as 1. NULL: the search finds no free run; it finds any run
 * that is an eighth larger than the request. Cost: straight code.
 */
void *calm_bounded_alloc(calm_bounded *heap, size_t bytes) CALM_NONBLOCKING;

/*
 * Frees a block and merges it with free neighbours. Returns 0; or, with nothing changed,
 * CALM_EFOREIGN, CALM_EMISALIGNED (not a multiple of 64), CALM_EDOUBLE (in free memory at the end
 * of a run, or where a freed block or a freed neighbour of one began, also if a live block is there
 * now), else CALM_EINTERIOR. NULL is ignored. Cost: straight code.
 */
int calm_bounded_free(calm_bounded *heap, void *block) CALM_NONBLOCKING;

/* The usable bytes of `block`; 0 for an address that is no live block of this heap. */
size_t calm_bounded_usable_size(const calm_bounded *heap, const void *block);

/* Bytes in free runs, whole units. */
size_t calm_bounded_free_bytes(const calm_bounded *heap);

/*
 * The bytes that calm_bounded_create needs so that no request fails, in any order of requests and
 * frees, as long as live requests sum to at most `live_bytes` including the new one, are at most
 * `live_blocks`, and none is above `largest`. 0: above the limit of calm_bounded_create. Proof in
 * docs/design/bounded.md. Any thread.
 */
size_t calm_bounded_capacity(size_t live_bytes, size_t live_blocks, size_t largest);

#ifdef __cplusplus
}
#endif

#endif
