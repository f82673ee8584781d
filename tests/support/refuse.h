/*
 * refuse.h: a filter under which the kernel refuses two system calls with EPERM, in this process
 * and in all that it starts, as old kernels and containers do; or has the program's handler of
 * SIGSYS answer them, as sandboxes do.
 */
#ifndef CALM_TESTS_REFUSE_H
#define CALM_TESTS_REFUSE_H

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/prctl.h>

#if defined(__x86_64__)
enum { REFUSE_ARCHITECTURE = AUDIT_ARCH_X86_64 };
#else
enum { REFUSE_ARCHITECTURE = AUDIT_ARCH_AARCH64 };
#endif

/* `action` is one of SECCOMP_RET_. False: no filters of system calls are to be had here. */
static inline bool filter_calls(unsigned first, unsigned second, unsigned action)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)REFUSE_ARCHITECTURE, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, first, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, second, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

static inline bool refuse_calls(unsigned first, unsigned second)
{
    return filter_calls(first, second, SECCOMP_RET_ERRNO | EPERM);
}

#endif
