/*
 * state.h: shared state of the simulator's files. Not for tests.
 */
#ifndef CALM_OS_SIM_STATE_H
#define CALM_OS_SIM_STATE_H

#include "base/attr.h"
#include "os/sim/sim.h"

/* Counts a call and returns whether it must fail. Pre: sim_lock is not held. */
bool sim_enter(enum sim_call kind);

/* Stops the program if a lock is held that forbids kernel calls. sim_enter_kernel: the check, then
 * sim_enter. */
void sim_check_unlocked(const char *name);
bool sim_enter_kernel(enum sim_call kind, const char *name);

/* Guards the tables of reservations and of pages in swap. */
void sim_lock(void);
void sim_unlock(void);
void sim_lock_reset(void);

/* Stops the program unless the range is committed pages of one reservation. */
void sim_check_committed(const char *call, const void *start, size_t size);

/* What the test has set. */
size_t sim_reserved_max(void);
size_t sim_committed_max(void);
bool sim_makes_holes(void);
uint64_t sim_touch_ns(void);

/* The number in an environment variable, or `standard` if it is not set. */
uint64_t sim_environment(const char *name, uint64_t standard);

/* Page size of the simulated machine: CALM_SIM_PAGE_BYTES, else the real one's. A multiple of the
 * real one's. */
size_t sim_page_bytes(void);

/* Stops the program: os.h's contract was broken, or the simulator has no room left. */
NORETURN void sim_stop(const char *format, ...) PRINTF_LIKE(1, 2);

#endif
