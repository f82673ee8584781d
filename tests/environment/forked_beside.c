/*
 * forked_beside.c: a thread gives the caches of ended threads back, and is held at each of the
 * instructions that follow when it has told the kernel, while another one forks. The child, which
 * does not have it, takes over what it was at: its threads use more of these caches than they had
 * been used before, and no block is anybody else's.
 *
 * Seen to fail with a registry_cool() that is not inside `edits`.
 */
#define _GNU_SOURCE

#include "check.h"

#include <elf.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    ENDED = 3,         /* threads, whose caches are given back             */
    CHILD_THREADS = 3, /* who have these caches next                       */
    SIZES_FEW = 3,     /* that these threads used                          */
    SIZES = 24,        /* that the child's threads use                     */
    BLOCKS = 60,       /* of each size                                     */
    BEHIND = 24,       /* instructions after each time                     */
    FORKS_MIN = 2 * BEHIND,
    STEPS_MAX = 3000000,
    CHILD_SECONDS = 30,
    LIMIT_SECONDS = 250,
};

/* Of the tracer, and of the process that it steps through. */
static struct {
    atomic_int stepped; /* the thread's number, once it is ready */
    atomic_bool is_traced;
    atomic_int forks_wanted, forks_done;
} *shared;

static size_t size_of(size_t i)
{
    return 16 + i * 112;
}

/* Allocates so many sizes, sees that each block stays as it was written, and frees all. */
static void *use_sizes(void *count)
{
    static _Thread_local void *blocks[SIZES][BLOCKS];
    for (size_t i = 0; i < (size_t)count; i++)
        for (size_t j = 0; j < BLOCKS; j++) {
            blocks[i][j] = malloc(size_of(i));
            CHECK(blocks[i][j] != NULL, "no memory");
            block_sign(blocks[i][j], size_of(i));
        }
    for (size_t i = 0; i < (size_t)count; i++)
        for (size_t j = 0; j < BLOCKS; j++) {
            CHECK(block_is_signed(blocks[i][j], size_of(i)),
                  "a block of %zu bytes is another's, too", size_of(i));
            free(blocks[i][j]);
        }
    return count;
}

static void *use_sizes_again(void *count)
{
    use_sizes(count);
    return use_sizes(count);
}

/* Threads that live at the same time, so that each has a cache. */
static void *meet_and_use(void *barrier)
{
    use_sizes((void *)SIZES_FEW);
    pthread_barrier_wait(barrier);
    return barrier;
}

static void leave_caches(void)
{
    pthread_barrier_t barrier;
    pthread_t threads[ENDED];
    pthread_barrier_init(&barrier, NULL, ENDED);
    for (int t = 0; t < ENDED; t++)
        CHECK(pthread_create(&threads[t], NULL, meet_and_use, &barrier) == 0, "no thread");
    for (int t = 0; t < ENDED; t++)
        pthread_join(threads[t], NULL);
}

static void live_as_child(void)
{
    pthread_t threads[CHILD_THREADS];
    check_time_limit(CHILD_SECONDS);
    for (int t = 0; t < CHILD_THREADS; t++)
        CHECK(pthread_create(&threads[t], NULL, use_sizes_again, (void *)SIZES) == 0, "no thread");
    use_sizes_again((void *)SIZES);
    for (int t = 0; t < CHILD_THREADS; t++)
        pthread_join(threads[t], NULL);
    check_heap();
    _exit(0);
}

/* Stepped through between its two signals. */
static void *give_back(void *argument)
{
    atomic_store(&shared->stepped, (int)syscall(SYS_gettid));
    while (!atomic_load(&shared->is_traced))
        sched_yield();
    raise(SIGUSR1);
    malloc_trim(0);
    raise(SIGUSR2);
    return argument;
}

/* The process that is stepped through, by its other thread. */
static void fork_when_wanted(void)
{
    pthread_t thread;
    check_time_limit(LIMIT_SECONDS);
    use_sizes((void *)SIZES_FEW);
    leave_caches();
    CHECK(pthread_create(&thread, NULL, give_back, NULL) == 0, "no thread");
    for (;;) {
        int done = atomic_load(&shared->forks_done);
        if (atomic_load(&shared->forks_wanted) == done) {
            sched_yield();
            continue;
        }
        pid_t child = fork();
        if (child == 0)
            live_as_child();
        check_child_succeeds(child, "a child");
        atomic_store(&shared->forks_done, done + 1);
    }
}

/* Whether the thread is about to tell the kernel that it does not need some pages. */
static bool is_giving_back(pid_t thread)
{
    struct user_regs_struct registers;
    struct iovec to = {&registers, sizeof registers};
    CHECK(ptrace(PTRACE_GETREGSET, thread, NT_PRSTATUS, &to) == 0, "ptrace");
#if defined(__x86_64__)
    const uintptr_t at = registers.rip, number = registers.rax;
    const unsigned long mask = 0xffff, call = 0x050f;
#else
    const uintptr_t at = registers.pc, number = registers.regs[8];
    const unsigned long mask = 0xffffffff, call = 0xd4000001;
#endif
    if (number != SYS_madvise)
        return false;
    errno = 0;
    unsigned long words = (unsigned long)ptrace(PTRACE_PEEKTEXT, thread, at, NULL);
    return errno == 0 && (words & mask) == call;
}

static int wait_for_signal(pid_t thread)
{
    int status = 0;
    CHECK(waitpid(thread, &status, __WALL) == thread && WIFSTOPPED(status),
          "the program ends with status 0x%x", (unsigned)status);
    return WSTOPSIG(status);
}

/* The other thread goes on, and forks. */
static void have_forked(void)
{
    int wanted = atomic_fetch_add(&shared->forks_wanted, 1) + 1;
    while (atomic_load(&shared->forks_done) != wanted) {
        siginfo_t ended = {0};
        waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT);
        CHECK(ended.si_pid == 0, "the program ended");
        sched_yield();
    }
}

/* From the first signal to the second; returns how many forks there were. */
static int step_through(pid_t thread)
{
    int forks = 0, signal = 0;
    unsigned behind = 0;
    CHECK(wait_for_signal(thread) == SIGUSR1, "another signal comes first");
    for (size_t steps = 0; signal != SIGUSR2; steps++) {
        CHECK(steps < STEPS_MAX, "no end after %zu steps", steps);
        if (is_giving_back(thread))
            behind = BEHIND + 1;
        CHECK(ptrace(PTRACE_SINGLESTEP, thread, NULL, NULL) == 0, "ptrace");
        signal = wait_for_signal(thread);
        CHECK(signal == SIGTRAP || signal == SIGUSR2, "the program has %s", strsignal(signal));
        if (behind == 0)
            continue;
        behind--;
        have_forked();
        forks++;
    }
    return forks;
}

int main(void)
{
    check_is_calmalloc();
    check_time_limit(LIMIT_SECONDS);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED, "no shared memory");
    pid_t process = fork();
    if (process == 0)
        fork_when_wanted();
    while (atomic_load(&shared->stepped) == 0)
        sched_yield();
    pid_t thread = atomic_load(&shared->stepped);
    if (ptrace(PTRACE_SEIZE, thread, NULL, NULL) != 0) {
        kill(process, SIGKILL);
        check_skip("a process may not be traced here");
    }
    atomic_store(&shared->is_traced, true);
    int forks = step_through(thread);
    printf("%d forks\n", forks);
    CHECK(forks > FORKS_MIN, "only %d forks", forks);
    kill(process, SIGKILL);
    return 0;
}
