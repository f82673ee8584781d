/*
 * children.c: children that run on their parent's memory and thread-local storage exchange blocks
 * while many threads do the same; what a child allocated its parent frees, and the other way round.
 * Nobody loses or doubles a block, whichever call made the child.
 *
 *   children WAY [CHILDREN]
 *
 * Ways: see `ways`. A child that `beside` makes runs at the same time as its parent, which waits.
 *
 * Seen to fail, with caches of cores, with a library that has only vfork: every other way; with
 * one that takes a zeroed area for one of core 0: on_other_storage.
 */
#define _GNU_SOURCE

#include "check.h"

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "live.h"

enum { WORKERS = 12, CHILDREN = 30, STEPS = 3000, SIZE_MAX_HERE = 3000, STACK_BYTES = 256 << 10 };

#if defined(__x86_64__)
enum { IS_X86_64 = 1 };
#else
enum { IS_X86_64 = 0 };
#endif

pid_t __vfork(void) __attribute__((returns_twice));
int __clone(int (*body)(void *), void *stack, int flags, void *argument, ...);

static struct live of_children = {.seed = 77};
static _Alignas(64) char stack[STACK_BYTES];
static void *const stack_top = stack + sizeof stack;

static void exchange(void)
{
    for (int i = 0; i < STEPS; i++)
        live_step(&of_children, SIZE_MAX_HERE);
}

static pid_t parent;

static __attribute__((noinline, noreturn)) void be_child(void)
{
    CHECK(getpid() != parent, "the parent returned where its child was");
    exchange();
    _exit(0);
}

static int child_body(void *argument)
{
    (void)argument;
    be_child();
}

static pid_t by_vfork(void)
{
    pid_t child = vfork();
    if (child == 0)
        be_child();
    return child;
}

static pid_t by_other_name(void)
{
    pid_t child = __vfork();
    if (child == 0)
        be_child();
    return child;
}

static pid_t by_clone(void)
{
    return clone(child_body, stack_top, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
}

static pid_t by_clone_under_other_name(void)
{
    return __clone(child_body, stack_top, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
}

static pid_t beside(void)
{
    return clone(child_body, stack_top, CLONE_VM | SIGCHLD, NULL);
}

/* The child returns here on its parent's stack. */
static pid_t by_syscall_vfork(void)
{
#if defined(SYS_vfork)
    long child = syscall(SYS_vfork);
#else
    long child = syscall(SYS_clone, CLONE_VM | CLONE_VFORK | SIGCHLD, 0L, 0L, 0L, 0L);
#endif
    if (child == 0)
        be_child();
    return (pid_t)child;
}

static pid_t by_syscall_clone(void)
{
    long child = syscall(SYS_clone, CLONE_VM | CLONE_VFORK | SIGCHLD, 0L, 0L, 0L, 0L);
    if (child == 0)
        be_child();
    return (pid_t)child;
}

static pid_t by_syscall_clone3(void)
{
    /* The kernel's struct clone_args: flags first, the signal fifth. */
    uint64_t arguments[8] = {CLONE_VM | CLONE_VFORK, 0, 0, 0, SIGCHLD};
    long child = syscall(SYS_clone3, arguments, sizeof arguments);
    if (child == 0)
        be_child();
    return (pid_t)child;
}

/* Children with a copy of the memory, where nothing is lent. */
static pid_t by_syscall_fork(void)
{
    long child = syscall(SYS_clone, SIGCHLD, 0L, 0L, 0L, 0L);
    if (child == 0) {
        for (int i = 0; i < 100; i++)
            free(hidden(malloc(100)));
        _exit(0);
    }
    return (pid_t)child;
}

/* On storage that the C library made, zeroed, and registered no area in. */
static pid_t on_other_storage(void)
{
    void *(*allocate)(void *) = NULL;
    *(void **)&allocate = dlsym(RTLD_DEFAULT, "_dl_allocate_tls");
    char *storage = allocate != NULL && IS_X86_64 ? allocate(NULL) : NULL;
    if (storage == NULL)
        check_skip("no storage for a thread is to be had here");
    void **words = (void **)(void *)storage;
    words[0] = words[2] = storage; /* its own address: of the table, and of the thread */
    return clone(child_body, stack_top, CLONE_VM | CLONE_VFORK | CLONE_SETTLS | SIGCHLD, NULL, NULL,
                 storage, NULL);
}

static const struct {
    const char *name;
    pid_t (*make)(void);
} ways[] = {
    {"vfork", by_vfork},
    {"__vfork", by_other_name},
    {"clone", by_clone},
    {"__clone", by_clone_under_other_name},
    {"beside", beside},
    {"syscall_vfork", by_syscall_vfork},
    {"syscall_clone", by_syscall_clone},
    {"syscall_clone3", by_syscall_clone3},
    {"syscall_fork", by_syscall_fork},
    {"on_other_storage", on_other_storage},
};

int main(int count, char **words)
{
    check_is_calmalloc();
    check_time_limit(100);
    parent = getpid();
    pid_t (*make)(void) = NULL;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (count > 1 && strcmp(words[1], ways[i].name) == 0)
            make = ways[i].make;
    CHECK(make != NULL, "no such way");
    int children = count > 2 ? atoi(words[2]) : CHILDREN;
    live_workers_start(WORKERS, SIZE_MAX_HERE);
    for (int i = 0; i < children; i++) {
        pid_t child = make();
        if (child < 0 && errno == ENOSYS)
            check_skip("the kernel has no such call");
        check_child_succeeds(child, "a child");
        exchange();
        live_check(&of_children);
    }
    live_end(&of_children);
    live_workers_end();
    check_heap();
    return 0;
}
