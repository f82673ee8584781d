/*
 * oracle.h: a record of every live block that does not depend on the allocator, and random
 * operations against it.
 *
 * A block's contents follow from its seed, so that lost, shared or overlapping memory is seen when
 * the block is checked: at every realloc and free, and for all at the end of a phase. One oracle
 * belongs to one thread.
 */
#ifndef CALM_STRESS_ORACLE_H
#define CALM_STRESS_ORACLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ORACLE_BLOCKS = 4096 };

struct shadow {
    unsigned char *start;
    size_t size;   /* as asked for */
    size_t filled; /* bytes that hold the pattern: size, or all that is usable */
    size_t align;  /* promised */
    uint64_t seed;
    bool is_aligned; /* came from an aligned request and was not reallocated since */
};

/* Blocks on their way from one thread to another. */
enum { MAILBOX_SLOTS = 64 };
struct mailbox {
    _Atomic(struct shadow *) slots[MAILBOX_SLOTS];
};

struct oracle {
    uint64_t random;
    uint64_t steps_done;
    size_t count;
    size_t live_bytes; /* usable */
    size_t peak_bytes;
    size_t live_max; /* no new block while more than this is live */
    size_t size_max;
    unsigned blocks_max;
    bool is_storm; /* every step is thousands of blocks of one class: threads meet in one depot */
    bool may_fail; /* the kernel is made to fail: NULL with ENOMEM is an answer */
    uint64_t failures;
    struct mailbox *mailbox; /* or NULL */
    struct shadow blocks[ORACLE_BLOCKS];
};

/* What the program prints so that a failure can be repeated. */
extern const char *stress_repro;

/* Prints the sentence and the command that repeats it, and aborts. */
_Noreturn void stress_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

uint64_t stress_random(uint64_t *state);

/* Bytes of blocks in all oracles and mailboxes together, and the most there ever were. */
extern _Atomic size_t stress_live_bytes;
extern _Atomic size_t stress_peak_bytes;

void oracle_begin(struct oracle *oracle, uint64_t seed);

/* One random operation, checked. */
void oracle_step(struct oracle *oracle);
void oracle_steps(struct oracle *oracle, uint64_t count);

/* The same; an alarm ends the program when a hundred steps, or what follows the last ones, take
 * longer than a minute. */
void oracle_steps_watched(struct oracle *oracle, uint64_t count);

/* The operations a fuzzer drives by itself. `index` < count. */
void oracle_malloc(struct oracle *oracle, size_t size, unsigned site);
void oracle_calloc(struct oracle *oracle, size_t count, size_t size);
void oracle_aligned(struct oracle *oracle, size_t align, size_t size);
void oracle_realloc(struct oracle *oracle, size_t index, size_t size);
void oracle_free(struct oracle *oracle, size_t index, unsigned how);

/* Checks every live block's contents. */
void oracle_check(const struct oracle *oracle);

/* Checks and frees every live block. */
void oracle_end(struct oracle *oracle);

/* Checks and frees what waits in a mailbox. */
void mailbox_end(struct mailbox *mailbox);

/* Checks that no two live blocks of the oracles and the mailbox share a byte. Nobody else runs. */
void oracle_check_apart(const struct oracle *const *oracles, size_t count,
                        const struct mailbox *mailbox);

/* calm_verify says nothing, and what is resident is bounded by `factor` x live bytes + `bound`.
 * Nobody else runs. */
void stress_check_heap(size_t live_bytes, size_t factor_percent, size_t bound);

#endif
