/*
 * trace.c: executes one cached malloc, a look at the block's usable size and its free one
 * instruction at a time, and prints where each one lies.
 *
 *   calm_trace LIBRARY SIZE
 *
 * The parent starts itself again with LIBRARY preloaded. That child allocates and frees blocks of
 * SIZE bytes until its cache is warm, then once more between breakpoints, from the same call sites.
 * The parent steps through and prints JSON: the offsets in LIBRARY of the instructions that each
 * call executed, and how many instructions ran in neither LIBRARY nor this program. Exit code
 * 77: this machine does not allow tracing.
 */
#define _GNU_SOURCE
#include <malloc.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WARM_ROUNDS = 5000, STEPS_MAX = 100000, SKIP = 77 };

/* What a program may have in a block when it frees it: a number with the mark's known byte wherever
 * a number of less than 2^56 can have it (core/cache.h). */
static const uint64_t content = 0xfbfbfbfbfbfbfb;

/* The part that is traced. Volatile pointers: the compiler must neither drop the pair nor call
 * through a stub. */
static void *(*volatile call_malloc)(size_t) = malloc;
static size_t (*volatile call_usable)(void *) = malloc_usable_size;
static void (*volatile call_free)(void *) = free;

static void breakpoint_if(bool is_traced)
{
    if (is_traced)
        __asm__ volatile("int3");
}

static int run_target(size_t size)
{
    void *held[4];
    for (int i = 0; i < 4; i++)
        held[i] = call_malloc(size);
    for (int round = 0; round <= WARM_ROUNDS; round++) {
        bool is_last = round == WARM_ROUNDS;
        breakpoint_if(is_last);
        void *block = call_malloc(size);
        breakpoint_if(is_last);
        *(volatile uint64_t *)block = content;
        call_usable(block);
        breakpoint_if(is_last);
        call_free(block);
        breakpoint_if(is_last);
    }
    for (int i = 0; i < 4; i++)
        call_free(held[i]);
    return 0;
}

struct range {
    uint64_t base, start, end;
};

/* Finds the executable mapping of the file `path` in process `pid`, and where the file's first byte
 * is mapped. */
static bool find_mapping(pid_t pid, const char *path, struct range *out)
{
    char name[64], line[4096];
    snprintf(name, sizeof name, "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(name, "r");
    bool is_found = false;
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        unsigned long start, end, offset;
        char mode[8];
        int name_at = 0;
        if (sscanf(line, "%lx-%lx %7s %lx %*s %*s %n", &start, &end, mode, &offset, &name_at) < 4)
            continue;
        line[strcspn(line, "\n")] = '\0';
        if (name_at == 0 || strcmp(line + name_at, path) != 0)
            continue;
        if (offset == 0)
            out->base = start;
        if (mode[2] == 'x') {
            *out = (struct range){out->base, start, end};
            is_found = true;
        }
    }
    if (maps != NULL)
        fclose(maps);
    return is_found;
}

static bool wait_for_trap(pid_t pid)
{
    int status;
    return waitpid(pid, &status, 0) == pid && WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP;
}

static bool is_inside(const struct range *range, uint64_t address)
{
    return address >= range->start && address < range->end;
}

/* Steps to the next breakpoint; prints the offsets in `library` on the way. Returns the steps
 * elsewhere, or -1. */
static long step_to_breakpoint(pid_t pid, const struct range *library, const struct range *program,
                               const char *title)
{
    long outside = 0;
    const char *comma = "";
    printf("\"%s\": [", title);
    for (int steps = 0; steps < STEPS_MAX; steps++) {
        struct user_regs_struct registers;
        siginfo_t info;
        if (ptrace(PTRACE_GETREGS, pid, NULL, &registers) != 0)
            return -1;
        if (is_inside(library, registers.rip)) {
            printf("%s%llu", comma, (unsigned long long)(registers.rip - library->base));
            comma = ", ";
        } else if (!is_inside(program, registers.rip)) {
            outside++;
        }
        if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) != 0 || !wait_for_trap(pid))
            return -1;
        if (ptrace(PTRACE_GETSIGINFO, pid, NULL, &info) != 0)
            return -1;
        if (info.si_code == SI_KERNEL) { /* our int3, not the end of a step */
            printf("],\n");
            return outside;
        }
    }
    return -1;
}

static int trace(pid_t pid, const char *library_path)
{
    char program_path[4096];
    ssize_t length = readlink("/proc/self/exe", program_path, sizeof program_path - 1);
    struct range library = {0}, program = {0};
    if (length < 0)
        return 1;
    program_path[length] = '\0';
    if (!wait_for_trap(pid) || ptrace(PTRACE_CONT, pid, NULL, NULL) != 0 || !wait_for_trap(pid)) {
        fprintf(stderr, "calm_trace: the traced program ended before its first breakpoint.\n");
        return 1;
    }
    if (!find_mapping(pid, library_path, &library) || !find_mapping(pid, program_path, &program)) {
        fprintf(stderr, "calm_trace: %s is not mapped into the traced program.\n", library_path);
        return 1;
    }
    printf("{");
    static const char *const titles[] = {"malloc", "malloc_usable_size", "free"};
    for (int i = 0; i < 3; i++) {
        long outside = step_to_breakpoint(pid, &library, &program, titles[i]);
        if (outside < 0) {
            fprintf(stderr, "calm_trace: no breakpoint within %d instructions.\n", STEPS_MAX);
            return 1;
        }
        printf("\"%s_outside\": %ld%s\n", titles[i], outside, i < 2 ? "," : "}");
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--target") == 0)
        return run_target(strtoul(argv[2], NULL, 10));
    char *library = argc == 3 ? realpath(argv[1], NULL) : NULL;
    if (library == NULL) {
        fprintf(stderr, "usage: calm_trace LIBRARY SIZE\n");
        return 2;
    }
    pid_t pid = fork();
    if (pid == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(SKIP);
        setenv("LD_PRELOAD", library, 1);
        execl("/proc/self/exe", "calm_trace", "--target", argv[2], (char *)NULL);
        _exit(1);
    }
    int code = trace(pid, library);
    kill(pid, SIGKILL);
    int status;
    waitpid(pid, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == SKIP) {
        fprintf(stderr, "calm_trace: this machine does not allow tracing.\n");
        code = SKIP;
    }
    free(library);
    return code;
}
