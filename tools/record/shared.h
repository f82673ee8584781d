/*
 * shared.h: the memory that a recorded process and the collector share: a ring of words for each
 * thread.
 *
 * The thread writes at `head`, the collector reads at `tail`. Each event carries a time stamp that
 * is taken after a block is handed out and before a block is given away, so that the stamps of a
 * block's events, and those of an address's successive blocks, are in the order of the events.
 * While a process has one ring, its events have no stamps, and count as of the stamp before them.
 *
 * `is_writing` is set before an event's stamp is taken and cleared after its words are published.
 * The collector takes a stamp, makes every thread of the process pass a barrier (membarrier), and
 * reads the rings: a thread that is not writing then has published all it stamped before, and one
 * that is writing stamps nothing below `last`.
 */
#ifndef CALM_RECORD_SHARED_H
#define CALM_RECORD_SHARED_H

#include <stdatomic.h>
#include <stdint.h>

enum {
    RING_WORDS = 1 << 16,
    RINGS_MAX = 1024,
    SHARED_MAGIC = 0x43524d31,

    /* Events: the first word has, from the lowest bit up, block, kind, log2(alignment) and whether
     * a stamp follows; then comes what is told here. As few words as can be, since each line of
     * them goes from one core to another. */
    RAW_FREE = 0,
    RAW_MALLOC = 1,  /* site | size << 48 [, size] */
    RAW_CALLOC = 2,  /* the same */
    RAW_ALIGNED = 3, /* the same */
    RAW_BEGIN = 4,   /* the block's realloc begins */
    RAW_END = 5,     /* site | size << 48, old block [, size]; the block is the new one, or 0 */
    RAW_TOUCHED = 6, /* resident pages */

    RAW_ADDRESS_BITS = 48, /* of a block, and of a site */
    RAW_KIND_SHIFT = 48,
    RAW_ALIGN_SHIFT = 51,
    RAW_STAMPED_SHIFT = 63,
    RAW_SIZE_SHIFT = 48,
    RAW_SIZE_LONG = 0xffff, /* the size has a word of its own */
    EVENT_WORDS_MAX = 5,
};

#define RAW_ADDRESS_MASK ((UINT64_C(1) << RAW_ADDRESS_BITS) - 1)
#define RAW_STAMPED (UINT64_C(1) << RAW_STAMPED_SHIFT)

struct ring {
    /* Its thread writes. */
    _Alignas(64) _Atomic uint64_t head;
    _Atomic uint64_t last;
    _Atomic uint32_t is_writing;
    _Atomic uint32_t thread; /* the kernel's number; 0: the ring is free */
    uint64_t tail_seen;
    _Atomic uint64_t lost; /* calls made by signal handlers while an event was written */

    /* The collector writes. */
    _Alignas(64) _Atomic uint64_t tail;

    _Alignas(4096) uint64_t words[RING_WORDS];
};

struct shared {
    uint32_t magic;
    int32_t collector; /* its process; the collector fills this in */
    int32_t process;
    uint64_t stamp_base;
    uint64_t has_barrier;
    _Atomic uint64_t unseen; /* calls of threads that found no ring */
    _Atomic uint32_t is_off; /* the collector gave up */

    /* A thread whose ring is full waits here for the collector's next round. */
    _Alignas(64) _Atomic uint32_t rounds;
    _Atomic uint32_t waiting;
    /* The process ends: it waits until the collector has looked at its heap and cleared this. */
    _Atomic uint32_t wants_look;

    struct ring rings[RINGS_MAX];
};

static inline uint64_t stamp_now(void)
{
    /* Not before the loads in front of it are done: a block may just have come from another thread.
     */
#if defined(__aarch64__)
    uint64_t count;
    __asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(count)::"memory");
    return count;
#else
    unsigned low, high;
    __asm__ volatile("lfence; rdtsc" : "=a"(low), "=d"(high)::"memory");
    return (uint64_t)high << 32 | low;
#endif
}

#endif
