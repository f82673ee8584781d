/*
 * trapped_calls.c: a filter has the program's own handler of SIGSYS answer a system call of the
 * heap's, as sandboxes do, and the program goes on.
 *
 *   trapped_calls prctl|madvise
 *
 * prctl: threads get caches meanwhile. madvise: much becomes free and cannot go back; there are no
 * threads, as the C library itself ends them with the call.
 *
 * Seen to fail with an os_signals_block() that blocks SIGSYS: the kernel ends the program.
 */
#define _GNU_SOURCE

#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "refuse.h"

enum { THREADS = 8, ROUNDS = 10, BLOCKS = 500, FREED_MIB = 64 };

static volatile size_t answers;

static void answer(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)info;
    ucontext_t *stopped = context;
#if defined(__x86_64__)
    stopped->uc_mcontext.gregs[REG_RAX] = -ENOSYS;
#else
    stopped->uc_mcontext.regs[0] = (unsigned long long)-ENOSYS;
#endif
    answers++;
}

static void *work(void *argument)
{
    void *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++)
        block_sign(blocks[i] = malloc(i * 8 + 8), i * 8 + 8);
    for (size_t i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    return argument;
}

static void work_together(void)
{
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, work, NULL) == 0, "no thread");
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void free_much(void)
{
    void *blocks[FREED_MIB];
    for (size_t i = 0; i < FREED_MIB; i++)
        block_sign(blocks[i] = malloc(MIB), MIB);
    for (size_t i = 0; i < FREED_MIB; i++)
        free(blocks[i]);
}

int main(int count, char **words)
{
    check_is_calmalloc();
    check_time_limit(60);
    CHECK(count == 2, "which call?");
    bool is_prctl = strcmp(words[1], "prctl") == 0;
    unsigned call = is_prctl ? SYS_prctl : SYS_madvise;
    struct sigaction action = {.sa_sigaction = answer, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGSYS, &action, NULL) == 0, "no handler");
    if (!filter_calls(call, call, SECCOMP_RET_TRAP))
        check_skip("no filters of system calls here");
    for (int i = 0; i < ROUNDS; i++) {
        if (is_prctl)
            work_together();
        else
            free_much();
    }
    CHECK(answers > 0, "no call was answered");
    check_heap();
    return 0;
}
