/*
 * clock.h: the kernel's clocks, without the C library: clock_gettime() may be another library's,
 * which may ask this one for memory.
 */
#ifndef CALM_OS_LINUX_CLOCK_H
#define CALM_OS_LINUX_CLOCK_H

#include <time.h>

struct timespec clock_read(clockid_t clock);

#endif
