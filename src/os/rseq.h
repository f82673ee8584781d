/*
 * rseq.h: restartable sequences: a few instructions on the current CPU's words, with one committing
 * store at the end.
 *
 * The kernel aborts a sequence whose thread it preempts, moves, signals or stops before that store;
 * nothing has happened then. No lock or atomic instruction is needed, because no two threads run on
 * one CPU at a time. A core is a number below os_facts.core_limit (the kernel's mm_cid): no two
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

/* The kernel's structure, one for each thread. Only the thread writes to it, and only `sequence`.
 */
struct rseq_area {
    uint32_t cpu_id_start;
    uint32_t cpu_id; /* negative if nothing is registered */
    uint64_t sequence;
    uint32_t flags;
    uint32_t node_id;
    uint32_t core; /* the kernel's mm_cid */
    uint32_t unused;
};

struct rseq_slot {
    _Alignas(CACHE_LINE_BYTES) void *_Atomic base;
};

/*
 * os_rseq_start: 0 if threads of this process can have areas and os_rseq_fence works; -ENOSYS if
 * the kernel, the processor or a tool that runs the process has no sequences.
 *
 * os_rseq_join: the calling thread's area, the C library's or else a separate one, which ends with
 * the thread after `on_leave()`; NULL: none.
 *
 * os_rseq_fence: when it returns 0, every sequence that ran at the call has ended or was aborted.
 */
int os_rseq_start(void);
struct rseq_area *os_rseq_join(void (*on_leave)(void));
int os_rseq_fence(void);

/*
 * rseq_pop takes the newest pointer of the entry at `offset` from this core's base; NULL: empty, or
 * aborted. rseq_push adds a pointer; false: full, or aborted. rseq_swap replaces this core's base
 * if it is `expected`, and returns the core; -1: it is not, or aborted. Each is a fast path: no
 * call, no loop.
 */
#if defined(__x86_64__)
#include "os/linux/rseq_x86_64.h"
#else
#include "os/linux/rseq_aarch64.h"
#endif

#endif
