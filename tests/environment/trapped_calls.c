/*
 * trapped_calls.c: a filter has the program's own handler of SIGSYS answer madvise, as sandboxes
 * do, and the program goes on: much becomes free and cannot go back. There are no threads, as the C
 * library itself ends them with the call.
 *
 * Seen to fail with an os_signals_block() that blocks SIGSYS: the kernel ends the program.
 */
#define _GNU_SOURCE

#include "check.h"

#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "refuse.h"

enum { ROUNDS = 10, FREED_MIB = 64 };

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

static void free_much(void)
{
    void *blocks[FREED_MIB];
    for (size_t i = 0; i < FREED_MIB; i++)
        block_sign(blocks[i] = malloc(MIB), MIB);
    for (size_t i = 0; i < FREED_MIB; i++)
        free(blocks[i]);
}

int main(void)
{
    check_is_calmalloc();
    check_time_limit(60);
    struct sigaction action = {.sa_sigaction = answer, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGSYS, &action, NULL) == 0, "no handler");
    if (!filter_calls(SYS_madvise, SYS_madvise, SECCOMP_RET_TRAP))
        check_skip("no filters of system calls here");
    for (int i = 0; i < ROUNDS; i++)
        free_much();
    CHECK(answers > 0, "no call was answered");
    check_heap();
    return 0;
}
