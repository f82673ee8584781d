/*
 * auxiliary.h: the kernel's facts about the process and the machine, without the C library: another
 * library may interpose getauxval() and sysconf() and allocate in them.
 */
#ifndef CALM_OS_LINUX_AUXILIARY_H
#define CALM_OS_LINUX_AUXILIARY_H

#include <stdint.h>
#include <sys/auxv.h>

/* The value of an entry (AT_ and so on) of the auxiliary vector; 0: no such entry. */
uintptr_t auxiliary_value(unsigned type);

#endif
