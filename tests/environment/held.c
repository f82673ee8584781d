/*
 * held.c: a helper process stops a thread at any instruction, steps it on a little and holds it
 * there, hundreds of times, as a debugger or a hypervisor does. The other threads go on meanwhile;
 * nobody loses a block or gets one that another has; nor do they when it is held for good.
 * Blocks are small, as in cut_off.c.
 *
 * Seen to fail with sequences that are not named in the area, and so never aborted.
 */
#define _GNU_SOURCE

#include "check.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "live.h"

enum { WORKERS = 2, STOPS = 300, STEPS_WHILE_HELD = 300, SIZE_MAX_HERE = 3000, CHECK_EVERY = 64 };

/* Shared with the helper process. */
struct board {
    atomic_int victim; /* the thread's number */
    atomic_ulong worker_steps;
    atomic_bool is_over;
};

static struct board *board;
static struct live of_workers[WORKERS], of_victim;

static void *worker(void *argument)
{
    struct live *live = argument;
    for (unsigned long i = 0; !atomic_load(&board->is_over); i++) {
        live_step(live, SIZE_MAX_HERE);
        atomic_fetch_add(&board->worker_steps, 1);
        if (i % CHECK_EVERY == 0)
            live_check(live);
    }
    live_end(live);
    return NULL;
}

static void *victim(void *argument)
{
    atomic_store(&board->victim, (int)syscall(SYS_gettid));
    for (;;)
        live_step(&of_victim, SIZE_MAX_HERE);
    return argument;
}

/* The program. When it is over the victim is still held, and its table is freed by another. */
static void run_program(void)
{
    pthread_t workers[WORKERS], stopped;
    of_victim.seed = 9;
    CHECK(pthread_create(&stopped, NULL, victim, NULL) == 0, "no thread");
    for (size_t w = 0; w < WORKERS; w++) {
        of_workers[w].seed = w + 1;
        CHECK(pthread_create(&workers[w], NULL, worker, &of_workers[w]) == 0, "no thread");
    }
    for (size_t w = 0; w < WORKERS; w++)
        pthread_join(workers[w], NULL);
    live_end(&of_victim);
    _exit(0);
}

static void wait_for_workers(unsigned long steps)
{
    unsigned long target = atomic_load(&board->worker_steps) + steps;
    while (atomic_load(&board->worker_steps) < target)
        sleep_ms(1);
}

static void stop(pid_t thread)
{
    int status;
    CHECK(ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) == 0, "ptrace");
    CHECK(waitpid(thread, &status, __WALL) == thread && WIFSTOPPED(status),
          "the program ended early");
}

static void step(pid_t thread)
{
    int status;
    CHECK(ptrace(PTRACE_SINGLESTEP, thread, NULL, NULL) == 0, "ptrace");
    CHECK(waitpid(thread, &status, __WALL) == thread && WIFSTOPPED(status),
          "the program ended early");
}

int main(void)
{
    check_is_calmalloc();
    check_is_by_cores();
    check_time_limit(110);
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(board != MAP_FAILED, "mmap");
    pid_t program = fork();
    if (program == 0) {
        check_time_limit(100);
        run_program();
    }
    while (atomic_load(&board->victim) == 0)
        sleep_ms(1);
    pid_t thread = atomic_load(&board->victim);
    CHECK(ptrace(PTRACE_SEIZE, thread, NULL, NULL) == 0, "ptrace");
    unsigned long seed = 3;
    for (int i = 0; i < STOPS; i++) {
        struct timespec rest = {0, (long)(random_next(&seed) % 200) * 1000};
        nanosleep(&rest, NULL);
        stop(thread);
        for (unsigned long steps = random_next(&seed) % 30; steps > 0; steps--)
            step(thread);
        wait_for_workers(STEPS_WHILE_HELD);
        if (i + 1 < STOPS)
            CHECK(ptrace(PTRACE_CONT, thread, NULL, NULL) == 0, "ptrace");
    }
    atomic_store(&board->is_over, true);
    int status;
    CHECK(waitpid(thread, &status, __WALL) == thread, "waitpid"); /* it ends with the program */
    check_child_succeeds(program, "the program");
    return 0;
}
