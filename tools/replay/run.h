/*
 * run.h: carries steps out: one thread for each of the recording, and a table of slots where blocks
 * are kept.
 *
 * Steps are handed out in batches. Inside a batch threads run beside each other; a step waits only
 * for the step before it on the same slot. Between batches all threads wait.
 */
#ifndef CALM_REPLAY_RUN_H
#define CALM_REPLAY_RUN_H

#include "../record/areas.h"
#include "decode.h"

#include <stdatomic.h>

struct runner {
    const char *path;
    struct areas areas;
    size_t page_bytes;
    uint64_t live_bytes, live_blocks, peak_live_bytes; /* by the recording */
    _Atomic uint64_t failed;                           /* requests that the allocator refused */
    uint64_t calls_us, cpu_user_us, cpu_system_us;     /* while calls were made */
    uint32_t threads_made;
};

void run_open(struct runner *runner);

/* The step is made later, by run_batch at the latest. */
void run_add(struct runner *runner, const struct step *step);
void run_batch(struct runner *runner);
void run_end_threads(struct runner *runner);

uint64_t run_clock_us(void);

#endif
