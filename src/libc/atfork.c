/*
 * atfork.c: fork handlers that the program or its libraries register.
 *
 * The C library calls prepare handlers in reverse order of registration, parent and child handlers
 * in order. The heap's handlers must be registered first: then the program's prepare handlers run
 * before the heap takes its locks and blocks signals, and the others after the heap releases them.
 * So the first registration, even from a constructor that runs before ours, registers the heap's
 * first.
 *
 * Owner: any thread writes `next_register`, always with the same value.
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

/* pthread_atfork() calls this. ENOMEM: no memory, or no function to call. Weak: in a program
 * without a loader the C library defines it. */
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
