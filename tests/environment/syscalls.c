/*
 * syscalls.c: syscall and clone are ours, and are what they are in the C library: six arguments,
 * results, errno, and the library behind ours that has a syscall of its own.
 *
 *   syscalls [behind]
 *
 * Seen to fail with a syscall that drops its sixth argument (linked statically), one that reads
 * clone3's flags before the kernel has, and one that does not look for the library behind.
 */
#define _GNU_SOURCE

#include "check.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { ANSWER_BEHIND = 4242 };

#if defined(__x86_64__)
enum { IS_X86_64 = 1 };
#else
enum { IS_X86_64 = 0 };
#endif

static int leave(void *status)
{
    return (int)(intptr_t)status;
}

static void check_refused(long result, int error, const char *what)
{
    if (result == -1 && errno == ENOSYS)
        return; /* an emulator, or an older kernel */
    CHECK(result == -1 && errno == error, "%s: %ld", what, result);
}

/* The sixth argument says where in the file. */
static void check_six_arguments(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char path[] = "/tmp/calm_syscalls_XXXXXX";
    int file = mkstemp(path);
    CHECK(file >= 0 && ftruncate(file, (off_t)(3 * page)) == 0, "no file");
    unlink(path);
    CHECK(pwrite(file, "here", 4, (off_t)(2 * page)) == 4, "pwrite");
    const char *text = (const char *)syscall(SYS_mmap, NULL, page, PROT_READ, MAP_PRIVATE, file,
                                             2 * page);
    CHECK(text != MAP_FAILED && memcmp(text, "here", 4) == 0, "mapped from somewhere else");
}

static void check_refusals(void)
{
    static char stack[4096];
    errno = 0;
    check_refused(syscall(-1L), ENOSYS, "no such call");
    check_refused(syscall(SYS_clone3, NULL, 0L), EINVAL, "clone3 of nothing");
    check_refused(syscall(SYS_clone3, (void *)8, 64L), EFAULT, "clone3 of a bad address");
    check_refused(syscall(SYS_clone, CLONE_THREAD, 0L, 0L, 0L, 0L), EINVAL, "half a thread");
    check_refused(clone(NULL, stack + sizeof stack, SIGCHLD, NULL), EINVAL, "clone of nothing");
    check_refused(clone(leave, NULL, SIGCHLD, NULL), EINVAL, "clone on nothing");
}

/* A process of its own, with what its function returns as its status. */
static void check_clone(void)
{
    static _Alignas(64) char stack[64 << 10];
    pid_t noted = 0;
    pid_t child = clone(leave, stack + sizeof stack, CLONE_PARENT_SETTID | SIGCHLD, NULL, &noted);
    bool is_noted = noted == child || !IS_X86_64; /* an emulator notes it in the child */
    CHECK(child > 0 && is_noted, "clone says %d and notes %d", (int)child, (int)noted);
    check_child_succeeds(child, "a process made by clone");
}

int main(int count, char **words)
{
    (void)words;
    check_is_calmalloc();
    check_six_arguments();
    check_refusals();
    check_clone();
    long id = syscall(SYS_getpid);
    CHECK(id == (count > 1 ? ANSWER_BEHIND : getpid()), "getpid says %ld", id);
    free(hidden(malloc(100)));
    check_heap();
    return 0;
}
