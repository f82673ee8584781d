/*
 * dump.h: what it takes to write a file when a signal comes.
 *
 * As in os.h: 0 or a negative errno value, errno itself is left alone, nothing is allocated. All
 * but os_on_signal may be called from a signal handler.
 */
#ifndef CALM_OS_DUMP_H
#define CALM_OS_DUMP_H

#include "base/attr.h"

/* Runs `handler` on signal `number`, instead of what was there; interrupted calls go on. -EINVAL:
 * there is no such signal, or it cannot be caught. */
int os_on_signal(int number, void (*handler)(int number));

/* Makes a new file for writing. The descriptor, or -EEXIST and whatever the kernel says. */
int os_file_create(const char *name);
void os_file_close(int fd);

/* Waits until no other process that asked has the file, a second at most; then it is this one's
 * until it is closed or unlocked. What is no file of a disk is nobody's. */
void os_file_lock(int fd);
void os_file_unlock(int fd);

/* The calling thread's errno, for a handler that puts it back with os_set_errno. */
int os_errno(void);

#endif
