/*
 * cycles.h: the processor's time counter, read in one instruction.
 *
 * For comparing durations: the unit depends on the machine, some tenths to some tens of
 * nanoseconds. A thread that moves to another processor may see a small step, also back.
 */
#ifndef CALM_OS_CYCLES_H
#define CALM_OS_CYCLES_H

#include "base/attr.h"

ALWAYS_INLINE uint64_t os_cycles(void)
{
#if defined(__aarch64__)
    uint64_t count;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(count));
    return count;
#else
    return __builtin_ia32_rdtsc();
#endif
}

#endif
