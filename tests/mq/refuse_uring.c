/*
 * refuse_uring.c: runs a program under a filter that refuses io_uring_setup.
 *
 *   refuse_uring PROGRAM ARGUMENTS...
 */
#include "refuse.h"

#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SKIPPED = 77 };

int main(int count, char **words)
{
    if (count < 2)
        return 2;
    if (!refuse_calls(SYS_io_uring_setup, SYS_io_uring_setup)) {
        fprintf(stderr, "skipped: no filters of system calls here\n");
        return SKIPPED;
    }
    execvp(words[1], words + 1);
    perror(words[1]);
    return 1;
}
