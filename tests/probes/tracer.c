/*
 * tracer.c: listens to the probes of otel_memory as a kernel's uprobes do, where no kernel lets us:
 * with a breakpoint at each, and by adding one to their semaphores.
 *
 *     tracer LIBRARY ALLOC FREE ALLOC_SEMAPHORE FREE_SEMAPHORE END PROGRAM [ARG...]
 *
 * The addresses are those of LIBRARY's notes; a semaphore of 0 is not raised. PROGRAM stops itself
 * once, when LIBRARY is there, and listening begins; after END allocations, if END is not 0, the
 * semaphores are lowered, as when a tracer ends. Prints what was heard, as `name number` lines.
 * One thread; x86-64.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SLOTS = 1 << 20, NOP = 0x90, TRAP = 0xCC };

static struct {
    uint64_t block, weight;
} live[SLOTS];

static struct {
    uint64_t allocs, sizes, weights, frees, strangers, doubles, live_blocks, live_weights,
        after_end;
} heard;

static int memory;

static void die(const char *what)
{
    fprintf(stderr, "tracer: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void put(uint64_t at, const void *from, size_t bytes)
{
    if (pwrite(memory, from, bytes, (off_t)at) != (ssize_t)bytes)
        die("writing");
}

static void get(uint64_t at, void *to, size_t bytes)
{
    if (pread(memory, to, bytes, (off_t)at) != (ssize_t)bytes)
        die("reading");
}

static void set_trap(uint64_t at)
{
    unsigned char found, trap = TRAP;
    get(at, &found, 1);
    if (found != NOP)
        die("a note does not lead to a nop");
    put(at, &trap, 1);
}

static void add(uint64_t semaphore, int change)
{
    uint16_t now;
    get(semaphore, &now, sizeof now);
    now = (uint16_t)(now + change);
    put(semaphore, &now, sizeof now);
}

/* Where a block is, or may be entered: open addressing, and no entry is ever taken out of order. */
static size_t place_of(uint64_t block)
{
    size_t at = (block >> 3) * 0x9E3779B97F4A7C15u >> 44;
    while (live[at].block != 0 && live[at].block != block)
        at = (at + 1) % SLOTS;
    return at;
}

static void on_alloc(const struct user_regs_struct *registers)
{
    size_t at = place_of(registers->rdi);
    heard.allocs++;
    heard.sizes += registers->rsi;
    heard.weights += registers->rdx;
    heard.doubles += live[at].block != 0 && live[at].weight != 0;
    live[at].block = registers->rdi;
    live[at].weight = registers->rdx;
}

static void on_free(uint64_t block)
{
    size_t at = place_of(block);
    heard.frees++;
    heard.strangers += live[at].block == 0 || live[at].weight == 0;
    live[at].weight = 0;
}

static uint64_t base_of(pid_t program, const char *library)
{
    char path[64], line[4096];
    snprintf(path, sizeof path, "/proc/%d/maps", (int)program);
    FILE *maps = fopen(path, "r");
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
        if (strstr(line, library) != NULL) {
            fclose(maps);
            return strtoull(line, NULL, 16);
        }
    die("the library is not there");
    return 0;
}

static void report(void)
{
    for (size_t at = 0; at < SLOTS; at++) {
        heard.live_blocks += live[at].weight != 0;
        heard.live_weights += live[at].weight;
    }
    printf("allocs %" PRIu64 "\nsizes %" PRIu64 "\nweights %" PRIu64 "\nfrees %" PRIu64 "\n",
           heard.allocs, heard.sizes, heard.weights, heard.frees);
    printf("strangers %" PRIu64 "\ndoubles %" PRIu64 "\nlive_blocks %" PRIu64
           "\nlive_weights %" PRIu64 "\nafter_end %" PRIu64 "\n",
           heard.strangers, heard.doubles, heard.live_blocks, heard.live_weights, heard.after_end);
}

int main(int count, char **words)
{
    uint64_t at[4], end = count > 7 ? strtoull(words[6], NULL, 0) : 0;
    bool has_ended = false;
    int status;
    if (count < 8)
        return 2;
    pid_t program = fork();
    if (program == 0) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        setenv("LD_PRELOAD", words[1], 1);
        execv(words[7], words + 7);
        _exit(127);
    }
    do { /* its exec, then the stop that it asks for */
        if (waitpid(program, &status, 0) < 0 || !WIFSTOPPED(status))
            die("the program ended early");
        if (WSTOPSIG(status) == SIGTRAP)
            ptrace(PTRACE_CONT, program, NULL, NULL);
    } while (WSTOPSIG(status) != SIGSTOP);
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", (int)program);
    memory = open(path, O_RDWR);
    uint64_t base = base_of(program, words[1]);
    for (int i = 0; i < 4; i++) {
        at[i] = strtoull(words[2 + i], NULL, 0);
        at[i] = at[i] == 0 ? 0 : at[i] + base;
    }
    for (int i = 0; i < 2; i++) {
        set_trap(at[i]);
        if (at[2 + i] != 0)
            add(at[2 + i], 1);
    }
    ptrace(PTRACE_CONT, program, NULL, NULL);
    while (waitpid(program, &status, 0) == program && WIFSTOPPED(status)) {
        struct user_regs_struct registers;
        int passed = WSTOPSIG(status);
        if (passed == SIGTRAP && ptrace(PTRACE_GETREGS, program, NULL, &registers) == 0) {
            if (registers.rip - 1 == at[0]) {
                on_alloc(&registers);
                heard.after_end += has_ended;
            } else if (registers.rip - 1 == at[1]) {
                on_free(registers.rdi);
            }
            passed = 0;
        }
        if (end != 0 && heard.allocs >= end && !has_ended) {
            has_ended = true;
            for (int i = 2; i < 4; i++)
                if (at[i] != 0)
                    add(at[i], -1);
        }
        ptrace(PTRACE_CONT, program, NULL, (void *)(long)passed);
    }
    report();
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : 1;
}
