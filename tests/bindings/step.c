/*
 * step.c: runs a program one instruction at a time between its breakpoints, and prints where each
 * instruction lies.
 *
 *   calm_step PROGRAM ARGS
 *
 * PROGRAM executes int3 three times. Printed is JSON: the offsets in the file PROGRAM of what ran
 * between the first two as "alloc", and between the last two as "free". Exit code 77: this machine
 * does not allow tracing.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STEPS_MAX = 100000, SKIP = 77 };

/* Where the first byte of the file `path` is mapped in process `pid`; 0 when it is not. */
static uint64_t find_base(pid_t pid, const char *path)
{
    char name[64], line[4096];
    uint64_t base = 0;
    snprintf(name, sizeof name, "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(name, "r");
    while (maps != NULL && base == 0 && fgets(line, sizeof line, maps) != NULL) {
        unsigned long start, offset;
        int name_at = 0;
        line[strcspn(line, "\n")] = '\0';
        if (sscanf(line, "%lx-%*x %*s %lx %*s %*s %n", &start, &offset, &name_at) == 2 &&
            name_at > 0 && offset == 0 && strcmp(line + name_at, path) == 0)
            base = start;
    }
    if (maps != NULL)
        fclose(maps);
    return base;
}

static bool wait_for_trap(pid_t pid)
{
    int status;
    return waitpid(pid, &status, 0) == pid && WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP;
}

/* Steps to the next breakpoint and prints the offsets on the way. */
static bool step_to_breakpoint(pid_t pid, uint64_t base, const char *title)
{
    const char *comma = "";
    printf("\"%s\": [", title);
    for (int steps = 0; steps < STEPS_MAX; steps++) {
        struct user_regs_struct registers;
        siginfo_t info;
        if (ptrace(PTRACE_GETREGS, pid, NULL, &registers) != 0 ||
            ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) != 0 || !wait_for_trap(pid) ||
            ptrace(PTRACE_GETSIGINFO, pid, NULL, &info) != 0)
            return false;
        if (info.si_code == SI_KERNEL) { /* the program's int3, not the end of a step */
            printf("]");
            return true;
        }
        printf("%s%llu", comma, (unsigned long long)(registers.rip - base));
        comma = ", ";
    }
    return false;
}

static int trace(pid_t pid, const char *path)
{
    if (!wait_for_trap(pid) || ptrace(PTRACE_CONT, pid, NULL, NULL) != 0 || !wait_for_trap(pid)) {
        fprintf(stderr, "calm_step: %s ended before its first breakpoint.\n", path);
        return 1;
    }
    uint64_t base = find_base(pid, path);
    printf("{");
    bool is_done = base != 0 && step_to_breakpoint(pid, base, "alloc");
    printf(", ");
    is_done = is_done && step_to_breakpoint(pid, base, "free");
    printf("}\n");
    if (!is_done)
        fprintf(stderr, "calm_step: no breakpoint within %d instructions.\n", STEPS_MAX);
    return is_done ? 0 : 1;
}

int main(int argc, char **argv)
{
    char *path = argc > 1 ? realpath(argv[1], NULL) : NULL;
    if (path == NULL) {
        fprintf(stderr, "usage: calm_step PROGRAM ARGS\n");
        return 2;
    }
    pid_t pid = fork();
    if (pid == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(SKIP);
        setenv("LD_BIND_NOW", "1", 1);
        execv(path, argv + 1);
        _exit(1);
    }
    int code = trace(pid, path);
    kill(pid, SIGKILL);
    int status;
    waitpid(pid, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == SKIP) {
        fprintf(stderr, "calm_step: this machine does not allow tracing.\n");
        code = SKIP;
    }
    free(path);
    return code;
}
