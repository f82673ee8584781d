/*
 * worker.h: threads for whoever runs tasks: started, pinned to a CPU, joined; and a fine clock.
 *
 * Functions return 0 or a negative errno value. os_worker_start is the one that may allocate, in
 * the C library.
 */
#ifndef CALM_OS_WORKER_H
#define CALM_OS_WORKER_H

#include "base/attr.h"

/* Starts a thread that runs body(argument). -EAGAIN: no more threads. */
int os_worker_start(void *(*body)(void *), void *argument);

/* The calling thread's handle, for whoever joins it; and: nobody will. */
uint64_t os_worker_self(void);
void os_worker_leave(void);
void os_worker_join(uint64_t worker);

/* Has when_ended(argument) run on the calling thread when it ends, by its return, by pthread_exit
 * or by cancellation, behind its cleanup handlers; NULL: nothing any more. -ENOMEM, -EAGAIN:
 * refused. */
int os_worker_at_end(void (*when_ended)(void *), void *argument);

/* Binds the calling thread to one CPU. -EINVAL: this process may not use it. */
int os_worker_pin(uint32_t cpu);

/* The kernel's number of the calling thread; and whether the thread of such a number may run on
 * `cpu` alone. */
uint32_t os_worker_task(void);
bool os_worker_is_pinned(uint32_t task, uint32_t cpu);

/* The numbers of the CPUs that the calling thread may use, the lowest `most` of them; how many. */
size_t os_worker_cpus(uint32_t *cpus, size_t most);

/* Nanoseconds on a clock that never goes back. No system call where the kernel maps its clock. */
uint64_t os_clock_ns(void);

#endif
