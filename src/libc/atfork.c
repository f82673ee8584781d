/*
 * atfork.c: handlers of forks that a program or its libraries register.
 *
 * The C library calls those that prepare in the reverse order of their registration, the others in
 * that order. The heap's must be the first registered: then the program's run before the heap
 * takes its locks and blocks signals, and after that is over. So the heap's are registered before
 * any that come to the C library, also from constructors that run before ours.
 *
 * Owner: `next_register` is written with one value by any thread.
 */
#define _GNU_SOURCE

#include <dlfcn.h>
#include <errno.h>

#include "base/atomic.h"
#include "base/attr.h"
#include "core/heap.h"

#ifdef __GLIBC__

typedef int register_function(void (*before)(void), void (*in_parent)(void), void (*in_child)(void),
                              void *library);

static register_function *_Atomic next_register;

/* What pthread_atfork() calls. ENOMEM: no memory, or nobody registers. Weak: in a program without a
 * loader the C library has its own. */
EXPORT __attribute__((weak)) register_function __register_atfork;

int __register_atfork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void),
                      void *library)
{
    heap_install_fork_hooks();
    register_function *next = load(&next_register, RELAXED);
    if (next == NULL) {
        *(void **)(void *)&next = dlsym(RTLD_NEXT, "__register_atfork");
        store(&next_register, next, RELAXED);
    }
    return next == NULL ? ENOMEM : next(before, in_parent, in_child, library);
}

#endif
