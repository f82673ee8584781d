/*
 * state.h: what the simulator's files share. Not for tests.
 */
#ifndef CALM_OS_SIM_STATE_H
#define CALM_OS_SIM_STATE_H

#include "base/attr.h"
#include "os/sim/sim.h"

/* Counts a call and returns whether it is to fail. Pre: sim_lock is not held. */
bool sim_enter(enum sim_call kind);

/* Stops the program when a lock is held that no kernel call may be made under; the same in front of
 * sim_enter. */
void sim_check_unlocked(const char *name);
bool sim_enter_kernel(enum sim_call kind, const char *name);

/* Guards the table of reservations. */
void sim_lock(void);
void sim_unlock(void);
void sim_lock_reset(void);

/* Stops the program unless these are committed pages of one reservation. */
void sim_check_committed(const char *call, const void *start, size_t size);

/* Limits in force. */
size_t sim_reserved_max(void);
size_t sim_committed_max(void);
bool sim_makes_holes(void);
uint64_t sim_touch_ns(void);

/* What the environment says, else `standard`. */
uint64_t sim_environment(const char *name, uint64_t standard);

/* Of the simulated machine: CALM_SIM_PAGE_BYTES, else the real one's. A multiple of the latter. */
size_t sim_page_bytes(void);

/* Stops the program: os.h's contract was broken, or the simulator ran out of room. */
NORETURN void sim_stop(const char *format, ...) PRINTF_LIKE(1, 2);

#endif
