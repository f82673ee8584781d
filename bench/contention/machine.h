/*
 * machine.h: a simulated machine of many cores, one thread on each, in one real thread.
 *
 * Each core has a clock. A core runs until it needs a line that it does not have, an atomic
 * instruction, or the kernel; then whichever core is furthest behind goes on. A directory knows for
 * each line of 64 bytes which core may write it and which cores may read it. A line that another
 * core has changed, or has to give up, is a transfer: it takes COST_TRANSFER_NS, and transfers that
 * take a line away from somebody happen one after the other.
 *
 * Caches never overflow: a line leaves a core only because another core wants it. A store waits for
 * its line, though real cores hide some of that. So figures are of sharing alone.
 */
#ifndef CALM_BENCH_MACHINE_H
#define CALM_BENCH_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CORES_MOST = 256, LINE_BYTES = 64, WORD_BYTES = 4 };

/* Nanoseconds. Who says so: run.py. */
enum {
    COST_HIT_NS = 1,    /* a load or store of a line the core has, and what it computes meanwhile */
    COST_ATOMIC_NS = 5, /* a read-modify-write of such a line */
    COST_PAUSE_NS = 40, /* the instruction for loops that wait */
    COST_FETCH_NS = 70, /* a line that no other core keeps this one from: the first touch */
    COST_KERNEL_NS = 500, /* a call of the kernel */
    COST_SLEEP_NS = 5000, /* from the call that wakes a core until it runs */
};
extern uint64_t cost_transfer_ns;

enum access { ACCESS_LOAD, ACCESS_STORE, ACCESS_ATOMIC };

/* Every `count` cores in a row are near each other, and a line from another such group is far; 0:
 * all are near. It takes as long. */
void machine_set_chiplets(unsigned count);

/* The running core is about to touch `bytes` at `address`. Others may run before this returns. */
void machine_access(const void *address, size_t bytes, enum access access);

/* A lock's word went from free to held, or back, by the running core. */
void machine_lock_taken(const void *word);
void machine_lock_freed(const void *word);

unsigned machine_core(void);
uint64_t machine_clock(void);
void machine_spend(uint64_t ns);

/* The running core waits in a loop. */
void machine_pause(void);

/* Lets the cores that are behind go on. Called between operations. */
void machine_pass(void);

/* The running core stops until somebody wakes `channel`, then goes on `latency_ns` later. */
void machine_sleep(const void *channel);
void machine_wake(const void *channel, size_t count, uint64_t latency_ns);

/* Runs `body` on each core until one of them calls machine_end. `on_switch` hears who runs. */
void machine_run(unsigned cores, void (*body)(unsigned core), void (*on_switch)(unsigned core));
void machine_end(void);

/* Forgets counts, not who has which line; all clocks become the latest. Returns it. */
uint64_t machine_count_anew(void);

struct counts {
    uint64_t loads, stores, atomics; /* by line touched                                        */
    uint64_t atomics_moved;          /* atomics that had to take the line from another core    */
    uint64_t moves;                  /* accesses that took a line from another core, in a row  */
    uint64_t moves_far;              /* of the moves, from another chiplet                     */
    uint64_t copies;                 /* loads of a line that another core had changed, at once */
    uint64_t fetches;                /* first touches                                          */
    uint64_t switches;
};
extern struct counts machine_counts;

/* By line, and by the first word of an access; only what moved or was atomic. */
struct line_counts {
    uintptr_t address;
    uint64_t moves, moves_far, copies, atomics;
    uint64_t held_ns; /* of a lock in it */
};
void machine_each_line(void (*visit)(const struct line_counts *));
void machine_each_word(void (*visit)(const struct line_counts *));

#endif
