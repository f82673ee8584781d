/*
 * forked_over.c: a signal handler forks at each of the first instructions of its program's first
 * request, where the program has one thread. The child goes on where the handler came: its main
 * thread's cache is nobody else's.
 *
 *   forked_over         by a signal that may be blocked
 *   forked_over trap    by SIGTRAP, which the heap never blocks
 *
 * Seen to fail with an attach() that blocks no signals while the process has one thread; with
 * SIGTRAP where a fork's child takes what its thread is about to have for nobody's.
 */
#define _GNU_SOURCE

#include "check.h"

#include <elf.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

enum {
    FORKS_MIN = 900,
    FORKS_MAX = 1200,
    STEPS_BACK_MAX = 10000,
    BYTES = 100,
    LARGE_BYTES = 64 * 1024 * 1024, /* which no cache holds */
    BLOCKS = 64,
    CHILD_SECONDS = 30,
    LIMIT_SECONDS = 250,
};

/* Of the tracer, and of the process that it steps through. */
static struct {
    volatile uintptr_t interrupted; /* where the stack was when the handler came */
} *shared;

static volatile bool is_child;
static int chosen = SIGURG;

static uintptr_t stack_of(const ucontext_t *context)
{
#if defined(__x86_64__)
    return (uintptr_t)context->uc_mcontext.gregs[REG_RSP];
#else
    return (uintptr_t)context->uc_mcontext.sp;
#endif
}

/* Stops for the tracer once the child has ended. */
static void fork_here(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info;
    pid_t child = fork();
    if (child == 0) {
        is_child = true;
        return;
    }
    check_child_succeeds(child, "a child");
    shared->interrupted = stack_of(context);
    sigset_t call;
    sigemptyset(&call);
    sigaddset(&call, SIGUSR1);
    sigprocmask(SIG_UNBLOCK, &call, NULL); /* until the handler returns */
    raise(SIGUSR1);
}

/* From one place, so that all are of one cohort. */
__attribute__((noipa)) static void *allocate(void)
{
    void *volatile block = malloc(BYTES);
    return block;
}

/* More than a cache fetches at once. Whether the block at `freed`, which is not allocated, was
 * among them. */
static void *allocate_many(void *freed)
{
    bool was_met = false;
    for (int i = 0; i < BLOCKS; i++)
        was_met |= allocate() == freed;
    return was_met ? freed : NULL;
}

/* What this thread freed last is in its cache, which another thread has no part in. */
static void live_as_child(void *block)
{
    pthread_t thread;
    void *met = NULL;
    check_time_limit(CHILD_SECONDS);
    const volatile uintptr_t freed = (uintptr_t)block;
    free(block);
    CHECK(pthread_create(&thread, NULL, allocate_many, (void *)freed) == 0, "no thread");
    pthread_join(thread, &met);
    CHECK(met == NULL, "two threads have one cache");
    check_heap();
    _exit(0);
}

static void be_stepped(void)
{
    struct sigaction action = {.sa_sigaction = fork_here, .sa_flags = SA_SIGINFO | SA_NODEFER};
    if (chosen == SIGTRAP) /* the heap's start is too long to fork in all of it */
        free(hidden(malloc(LARGE_BYTES)));
    sigaction(chosen, &action, NULL);
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    raise(SIGUSR1);
    void *block = allocate();
    if (is_child)
        live_as_child(block);
    raise(SIGUSR2);
    _exit(0);
}

static int wait_for_stop(pid_t process)
{
    int status = 0;
    CHECK(waitpid(process, &status, __WALL) == process && WIFSTOPPED(status),
          "the program ends with status 0x%x", (unsigned)status);
    return WSTOPSIG(status);
}

static int step(pid_t process)
{
    CHECK(ptrace(PTRACE_SINGLESTEP, process, NULL, NULL) == 0, "ptrace");
    return wait_for_stop(process);
}

static uintptr_t stack_now(pid_t process)
{
    struct user_regs_struct registers;
    struct iovec to = {&registers, sizeof registers};
    CHECK(ptrace(PTRACE_GETREGSET, process, NT_PRSTATUS, &to) == 0, "ptrace");
#if defined(__x86_64__)
    return registers.rsp;
#else
    return registers.sp;
#endif
}

/* The handler runs now, or once its signal is not blocked, and returns. False: the request ended
 * first. */
static bool have_forked(pid_t process)
{
    int stop = chosen;
    while (stop != SIGUSR1 && stop != SIGUSR2) { /* blocked at first, or of the child's end */
        uintptr_t passed = stop == chosen ? (uintptr_t)chosen : 0;
        CHECK(ptrace(PTRACE_CONT, process, NULL, (void *)passed) == 0, "ptrace");
        stop = wait_for_stop(process);
    }
    if (stop == SIGUSR2)
        return false;
    unsigned steps = 0;
    do {
        CHECK(steps++ < STEPS_BACK_MAX, "the handler does not return");
        step(process);
    } while (stack_now(process) != shared->interrupted);
    return true;
}

int main(int count, char **words)
{
    check_is_calmalloc();
    if (count > 1 && strcmp(words[1], "trap") == 0)
        chosen = SIGTRAP;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED, "no shared memory");
    check_time_limit(LIMIT_SECONDS);
    pid_t process = fork();
    if (process == 0)
        be_stepped();
    CHECK(wait_for_stop(process) == SIGUSR1, "the program cannot be traced");
    ptrace(PTRACE_SETOPTIONS, process, NULL, (void *)PTRACE_O_EXITKILL);
    int forks = 0, signal = 0;
    while (forks < FORKS_MAX && signal != SIGUSR2 && have_forked(process)) {
        forks++;
        signal = step(process);
    }
    printf("%d forks\n", forks);
    kill(process, SIGKILL);
    CHECK(forks > FORKS_MIN, "only %d forks", forks);
    return 0;
}
