/*
 * clock.h: the kernel's clocks, without the C library: another library may interpose
 * clock_gettime() and allocate in it.
 */
#ifndef CALM_OS_LINUX_CLOCK_H
#define CALM_OS_LINUX_CLOCK_H

#include <time.h>

struct timespec clock_read(clockid_t clock);

#endif
