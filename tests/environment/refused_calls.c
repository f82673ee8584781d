/*
 * refused_calls.c: a filter of system calls refuses what sequences need from before the program
 * starts, as old kernels and containers do. Threads have caches of their own then, everything
 * works, and the statistics say so with a reason.
 *
 *   refused_calls membarrier|rseq|both
 *
 * Seen to fail with an os_rseq_start() that does not heed what the kernel says.
 */
#define _GNU_SOURCE

#include "check.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "live.h"

#if defined(__x86_64__)
enum { ARCHITECTURE = AUDIT_ARCH_X86_64 };
#else
enum { ARCHITECTURE = AUDIT_ARCH_AARCH64 };
#endif

enum { THREADS = 6, STEPS = 20000 };

static atomic_int working;

static void refuse(unsigned first, unsigned second)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)ARCHITECTURE, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, first, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, second, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) != 0)
        check_skip("no filters of system calls here");
}

static void *worker(void *argument)
{
    struct live live = {.seed = (size_t)argument};
    for (int i = 0; i < STEPS; i++)
        live_step(&live, 5000);
    atomic_fetch_add(&working, 1);
    while (atomic_load(&working) < THREADS)
        live_step(&live, 5000);
    CHECK(own_caches() > 0, "nobody has a cache of his own");
    live_end(&live);
    return NULL;
}

static void work_without(void)
{
    pthread_t threads[THREADS];
    for (size_t t = 0; t < THREADS; t++)
        CHECK(pthread_create(&threads[t], NULL, worker, (void *)(t + 1)) == 0, "no thread");
    for (size_t t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    char text[32 * 1024];
    statistics(text, sizeof text);
    CHECK(strstr(text, "\"caches_by\":\"thread\"") != NULL &&
              strstr(text, "\"no_cores\":\"") != NULL,
          "the statistics say %.600s", text);
    check_heap();
}

int main(int count, char **words)
{
    check_is_calmalloc();
    check_time_limit(60);
    CHECK(count > 1, "what is refused?");
    if (count > 2) {
        work_without();
        return 0;
    }
    check_is_by_cores();
    bool is_rseq = strcmp(words[1], "membarrier") != 0;
    bool is_membarrier = strcmp(words[1], "rseq") != 0;
    refuse(is_rseq ? SYS_rseq : SYS_membarrier, is_membarrier ? SYS_membarrier : SYS_rseq);
    char again[] = "again";
    char *const arguments[] = {words[0], words[1], again, NULL};
    execv("/proc/self/exe", arguments);
    CHECK(false, "cannot start itself");
    return 1;
}
