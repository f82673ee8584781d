/*
 * worker.h: threads for task runners: start, pin to a CPU, join; and a fine clock.
 *
 * Functions return 0 or a negative errno value. Only os_worker_start may allocate, in the C
 * library.
 */
#ifndef CALM_OS_WORKER_H
#define CALM_OS_WORKER_H

#include "base/attr.h"

/* Starts a thread that runs body(argument). -EAGAIN: no more threads. */
int os_worker_start(void *(*body)(void *), void *argument);

/* os_worker_self: the calling thread's handle, for os_worker_join. os_worker_leave: no thread will
 * join it. */
uint64_t os_worker_self(void);
void os_worker_leave(void);
void os_worker_join(uint64_t worker);

/* Runs when_ended(argument) on the calling thread when it ends, by return, pthread_exit or
 * cancellation, after its cleanup handlers; NULL: nothing any more. -ENOMEM, -EAGAIN: refused. */
int os_worker_at_end(void (*when_ended)(void *), void *argument);

/* Binds the calling thread to one CPU. -EINVAL: this process may not use it. */
int os_worker_pin(uint32_t cpu);

/* os_worker_task: the kernel's number of the calling thread. os_worker_is_pinned: whether the
 * thread with that number may run on `cpu` alone. */
uint32_t os_worker_task(void);
bool os_worker_is_pinned(uint32_t task, uint32_t cpu);

/* Writes the lowest `most` CPU numbers that the calling thread may use; returns how many. */
size_t os_worker_cpus(uint32_t *cpus, size_t most);

/* Nanoseconds on a monotonic clock. No system call where the kernel maps its clock. */
uint64_t os_clock_ns(void);

#endif
