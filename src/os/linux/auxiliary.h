/*
 * auxiliary.h: what the kernel told the process about itself and the machine, without the C
 * library: getauxval() and sysconf() may be another library's, which may ask this one for memory.
 */
#ifndef CALM_OS_LINUX_AUXILIARY_H
#define CALM_OS_LINUX_AUXILIARY_H

#include <stdint.h>
#include <sys/auxv.h>

/* The value of an entry of the auxiliary vector, AT_ and so on; 0: there is none. */
uintptr_t auxiliary_value(unsigned type);

#endif
