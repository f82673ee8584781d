/*
 * sim.h: how a test controls the simulated kernel behind os/os.h.
 *
 * The simulator has real memory underneath, checks every precondition of os.h and stops the program
 * with one sentence when one is broken, counts calls by kind, and fails them on demand. At CHECKS 2
 * it also checks law L3: no kernel call under a depot's lock or the span lock. Its clock and its
 * random bytes are the same in every run.
 *
 * The environment controls failures before main, where no test code runs:
 *   CALM_SIM_FAIL_NTH=n     the n-th fallible call fails, once
 *   CALM_SIM_FAIL_FROM=n    every fallible call from the n-th on fails, until sim_recover
 *   CALM_SIM_SPACE=bytes    the limit on reservations
 * CALM_SIM_GROUP_BYTES=bytes is the limit of the control group at the start, and
 * CALM_SIM_PAGE_BYTES=bytes simulates pages larger than the real machine's.
 */
#ifndef CALM_OS_SIM_SIM_H
#define CALM_OS_SIM_SIM_H

#include "base/attr.h"

/* Calls by kind; those before SIM_FALLIBLE_COUNT can fail. */
enum sim_call {
    SIM_RESERVE,
    SIM_EXTEND,
    SIM_COMMIT,
    SIM_PURGE,
    SIM_RENEW,
    SIM_MOVE,
    SIM_RELEASE,
    SIM_THREAD_EXIT,
    SIM_ARM,
    SIM_FORK,
    SIM_WRITE,
    SIM_CLAIM,
    SIM_POPULATE,
    SIM_LOCK,
    SIM_HUGE, /* any call about huge pages */
    SIM_PAGE_OUT,
    SIM_COOL,
    SIM_PRESENT,
    SIM_FALLIBLE_COUNT,
    SIM_NAME = SIM_FALLIBLE_COUNT,
    SIM_RESIDENT,
    SIM_WAIT,
    SIM_WAKE,
    SIM_CALL_COUNT
};

/* Fails the `nth` fallible call from now on, once; 1 is the next. */
void sim_fail_nth(uint64_t nth);

/* Fails every fallible call from the `nth` from now on. */
void sim_fail_from(uint64_t nth);

/* Fails every call of `kind` from its `nth` from now on. Several kinds may fail at a time. */
void sim_fail_kind(enum sim_call kind, uint64_t nth);

/* Limits on all reserved and all committed bytes; SIZE_MAX: none. Calls above a limit return
 * -ENOMEM. */
void sim_limit_reserved(size_t bytes);
void sim_limit_committed(size_t bytes);

/* Whether a failed move leaves a hole, as some kernels do. */
void sim_make_holes(bool is_wanted);

/* sim_limit_group: the control group's limits in bytes; SIZE_MAX: none. sim_hide_group: whether the
 * groups are unreadable. sim_group_reads: how often they were read. */
void sim_limit_group(size_t max, size_t high);
void sim_hide_group(bool is_hidden);
uint64_t sim_group_reads(void);

/* Ends every failure plan, and the limits on reserved and committed bytes. */
void sim_recover(void);

/* Calls since the start: of one kind; of all fallible kinds; and those that were made to fail. */
uint64_t sim_calls(enum sim_call kind);
uint64_t sim_fallible_calls(void);
uint64_t sim_failures(void);

/* Bytes reserved; committed; and committed and resident. */
size_t sim_reserved_bytes(void);
size_t sim_committed_bytes(void);
size_t sim_resident_bytes(void);

/* sim_huge_bytes: bytes of reservations in huge pages. sim_touch_takes: nanoseconds that making a
 * huge page takes from now on. */
enum { SIM_HUGE_BYTES = 2 * 1024 * 1024 };
size_t sim_huge_bytes(void);
void sim_touch_takes(uint64_t ns);

/* sim_swap: whether there is swap; there is none at the start. sim_touch: touches a page, which
 * comes back. sim_swapped_bytes: bytes in swap. sim_cooled_bytes: bytes marked cold since
 * sim_swap(). */
void sim_swap(bool is_there);
void sim_touch(const void *address);
size_t sim_swapped_bytes(void);
size_t sim_cooled_bytes(void);

/* Bytes that claim_map returned and that are still claimed; bytes that are locked. */
size_t sim_claimed_bytes(void);
size_t sim_claimed_locked_bytes(void);
/* Loads module number `module`, below 8, at [start, end); unloads it if they are equal. */
void sim_load(unsigned module, uintptr_t start, uintptr_t end, bool is_linker);

/* Calls `call` once, at the next lookup of the module around an address. */
void sim_when_asked(void (*call)(const void *address));

void sim_clock_advance(uint64_t ms);
void sim_random_seed(uint64_t seed);

#endif
