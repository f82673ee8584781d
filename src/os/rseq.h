/*
 * rseq.h: restartable sequences: a few instructions on the words of the core that runs them, with
 * one store at their end that counts.
 *
 * The kernel aborts a sequence whose thread it preempts, moves, signals or stops before that store;
 * nothing has happened then. No lock and no atomic instruction is needed, since no two threads run
 * on one core at a time. A core is a number below os_facts.core_limit (the kernel's mm_cid): no two
 * running threads of a process have the same. Source: rseq(2), "Restartable sequences", P. Turner
 * and M. Desnoyers.
 *
 * The sequences work on a table of slots, one for each core. A slot holds a base address, from
 * which all offsets count. At `offset` lies an entry of 16 bytes, whose second half is two words:
 * the offset of a stack's newest pointer, and of the last one it may have. Below the oldest lies a
 * NULL.
 */
#ifndef CALM_OS_RSEQ_H
#define CALM_OS_RSEQ_H

#include "base/atomic.h"
#include "base/attr.h"

/* The kernel's structure, one for each thread. Only sequence is ever written, by the thread. */
struct rseq_area {
    uint32_t cpu_id_start;
    uint32_t cpu_id; /* negative where nothing is registered */
    uint64_t sequence;
    uint32_t flags;
    uint32_t node_id;
    uint32_t core; /* the kernel calls it mm_cid */
    uint32_t unused;
};

struct rseq_slot {
    _Alignas(CACHE_LINE_BYTES) void *_Atomic base;
};

/*
 * os_rseq_start: 0 when threads of this process can have areas and os_rseq_fence works; -ENOSYS
 * where the kernel, the processor or a tool that runs us has no sequences. os_rseq_join: the
 * calling thread's area, the C library's or else one of our own, which ends with the thread after
 * `on_leave()`; NULL when there is none. os_rseq_fence: when it returns 0, every sequence that was
 * running when it was called has ended or was aborted.
 */
int os_rseq_start(void);
struct rseq_area *os_rseq_join(void (*on_leave)(void));
int os_rseq_fence(void);

/*
 * rseq_pop takes the newest pointer of the entry at `offset` from this core's base; NULL: empty, or
 * aborted. rseq_push adds one; false: full, or aborted. rseq_swap replaces this core's base,
 * returns the core; -1: it is not `expected`, or aborted. Each is a fast path: no call, no loop.
 */
#if defined(__x86_64__)
#include "os/linux/rseq_x86_64.h"
#else
#include "os/linux/rseq_aarch64.h"
#endif

#endif
