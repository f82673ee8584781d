/*
 * unshare_after_free.c: a program that looks single-threaded must be one to the kernel whenever it
 * asks: unshare with CLONE_NEWUSER and setns refuse a process with a second thread, even one of the
 * heap. It frees 100 MB, waits (the argument, in milliseconds), and makes the system call itself,
 * past the C library.
 */
#define _GNU_SOURCE

#include "check.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 100000 };

static void skip_where_it_is_forbidden(void)
{
    pid_t child = fork();
    if (child == 0)
        _exit(unshare(CLONE_NEWUSER) == 0 ? 0 : 1);
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        check_skip("this machine does not allow user namespaces");
}

int main(int argc, char **argv)
{
    check_is_calmalloc();
    check_time_limit(30);
    skip_where_it_is_forbidden();
    void **blocks = book(BLOCKS * sizeof *blocks);
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(1000);
        CHECK(blocks[i] != NULL, "no memory");
        memset(blocks[i], 1, 1000);
    }
    for (size_t i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    sleep_ms(argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 0);
    CHECK(syscall(SYS_unshare, CLONE_NEWUSER) == 0, "unshare(CLONE_NEWUSER), with %zu tasks",
          task_count());
    void *block = malloc(1000);
    CHECK(block != NULL, "no memory after unshare");
    free(block);
    return 0;
}
