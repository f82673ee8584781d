/*
 * filtered.c: starts a program under a filter of system calls.
 *
 *   filtered "ALLOWED..." "REFUSED..." PROGRAM ARGUMENTS
 *
 * Both lists are numbers with blanks. What is refused fails with EPERM; any other call kills the
 * process.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { RULES_MAX = 1200 };

static struct sock_filter filter[RULES_MAX];
static unsigned short used;

static void add(struct sock_filter rule)
{
    if (used == RULES_MAX) {
        fputs("filtered: too many system calls for one filter\n", stderr);
        exit(125);
    }
    filter[used++] = rule;
}

static void add_all(const char *numbers, unsigned verdict)
{
    char *end;
    for (long number = strtol(numbers, &end, 10); end != numbers;
         number = strtol(numbers, &end, 10)) {
        add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1));
        add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, verdict));
        numbers = end;
    }
}

int main(int count, char **words)
{
    if (count < 4) {
        fputs("filtered: say ALLOWED REFUSED PROGRAM ARGUMENTS\n", stderr);
        return 125;
    }
    add((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
    add_all(words[1], SECCOMP_RET_ALLOW);
    add_all(words[2], SECCOMP_RET_ERRNO | EPERM);
    add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS));
    struct sock_fprog program = {used, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0) {
        perror("filtered");
        return 125;
    }
    execv(words[3], words + 3);
    perror(words[3]);
    return 125;
}
