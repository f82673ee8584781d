/*
 * dump.h: writing a file when a signal comes.
 *
 * As in os.h: functions return 0 or a negative errno value, preserve errno, and allocate nothing.
 * All but os_on_signal may be called from a signal handler.
 */
#ifndef CALM_OS_DUMP_H
#define CALM_OS_DUMP_H

#include "base/attr.h"

/* Installs `handler` for signal `number`; interrupted calls restart. -EINVAL: no such signal, or it
 * cannot be caught. */
int os_on_signal(int number, void (*handler)(int number));

/* Creates a new file for writing. Returns the descriptor, or -EEXIST or another kernel error. */
int os_file_create(const char *name);
void os_file_close(int fd);

/* Locks the file against other processes that call this; waits at most a second. The lock lasts
 * until the file is closed or unlocked. Files that are not on a disk are not locked. */
void os_file_lock(int fd);
void os_file_unlock(int fd);

/* The calling thread's errno, for a handler that restores it with os_set_errno. */
int os_errno(void);

#endif
