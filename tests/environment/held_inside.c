/*
 * held_inside.c: a helper process stops threads in the middle of the heap's slow work: it lets one
 * run to a kernel call that this work begins with, steps it on a few instructions and holds it
 * there. The other threads allocate, free, start and end meanwhile, a fixed number of times, with
 * blocks of all sizes. At the end everything is freed and the heap verified.
 *
 *   held_inside CALL: the kernel call's name
 *   held_inside CALL waiting: the others do what waits for a while: requests that cannot be served,
 *   trims, and forks, whose children use the heap
 *
 *   mremap    the end of what is reserved for the region, or metadata, moves
 *   mprotect  the front does
 *   madvise   pages are purged, and what follows it: the lists of spans, depots, shelves
 *
 * Seen to hang with a heap that waits for the locks of the spans and of the region's front, and
 * with one whose flush waits for a depot once its stack of batches is full.
 */
#define _GNU_SOURCE

#include "check.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <linux/ptrace.h>

#include "live.h"

enum {
    WORKERS = 2,
    STOPS = 60,
    STEPS_WHILE_HELD = 300,
    STOPS_WAITING = 12, /* others may have purged before the victim comes to it */
    STEPS_WAITING = 3,  /* after the first, the holder is known */
    STEPS_MAX = 250,    /* instructions behind the call */
    CALLS_MAX = 6,      /* of which one is chosen       */
    SIZE_MAX_HERE = 900 * 1024,
    THREAD_EVERY = 50,
    BURST = 4000, /* blocks of one size: more than a stack of batches has room for */
    STACK_BYTES = 128 * 1024,
    LIVES_MAX = 80,
    GROWTH_BYTES = 80 * 1024 * 1024,
    GIB = 1024 * 1024 * 1024,
};

/* Shared with the helper process. */
struct board {
    atomic_int victim; /* the thread's number, 0 between two of them */
    atomic_bool may_run;
    atomic_ulong worker_steps;
    atomic_bool is_over;
};

static struct board *board;
static struct live of_workers[WORKERS];
static void *of_front[LIVES_MAX];
static unsigned lives;
static bool is_waiting;

static void start(pthread_t *thread, void *(*body)(void *), void *argument)
{
    pthread_attr_t small_stack;
    pthread_attr_init(&small_stack);
    pthread_attr_setstacksize(&small_stack, STACK_BYTES);
    CHECK(pthread_create(thread, &small_stack, body, argument) == 0, "no thread");
    pthread_attr_destroy(&small_stack);
}

/* Slabs are carved and retired; the region grows now and then. */
static void burst(unsigned long *seed)
{
    static _Thread_local void *blocks[BURST];
    size_t size = 16 + random_next(seed) % 1000;
    for (size_t i = 0; i < BURST; i++)
        CHECK((blocks[i] = malloc(size)) != NULL, "no memory");
    for (size_t i = 0; i < BURST; i++)
        free(blocks[i]);
}

static void *short_life(void *argument)
{
    free(hidden(malloc(100)));
    return argument;
}

static void *worker(void *argument)
{
    struct live *live = argument;
    for (unsigned long i = 0; !atomic_load(&board->is_over); i++) {
        live_step(live, SIZE_MAX_HERE);
        if (i % THREAD_EVERY == 0) {
            pthread_t thread;
            start(&thread, short_life, NULL);
            pthread_join(thread, NULL);
            burst(&live->seed);
        }
        atomic_fetch_add(&board->worker_steps, 1);
    }
    return NULL;
}

/* The program may not have so much. */
static void try_too_much(void)
{
    errno = 0;
    void *block = hidden(malloc(GIB));
    CHECK(block == NULL && errno == ENOMEM, "a block beyond the limit, or errno %d", errno);
}

static void use_heap_in_child(struct live *live)
{
    check_time_limit(60);
    check_heap();
    for (int i = 0; i < 300; i++)
        live_step(live, SIZE_MAX_HERE);
    burst(&live->seed);
    try_too_much();
    malloc_trim(0);
    live_end(live);
    pthread_t thread;
    start(&thread, short_life, NULL);
    pthread_join(thread, NULL);
    check_heap();
    _exit(0);
}

static void *waiting_worker(void *argument)
{
    struct live *live = argument;
    while (!atomic_load(&board->is_over)) {
        live_step(live, SIZE_MAX_HERE);
        try_too_much();
        malloc_trim(0);
        pid_t child = fork();
        if (child == 0)
            use_heap_in_child(live);
        check_child_succeeds(child, "a child");
        atomic_fetch_add(&board->worker_steps, 1);
    }
    return NULL;
}

/* A thread's whole life: its first cache, slow work of all kinds, and its end. */
static void *victim(void *argument)
{
    struct live *live = argument;
    atomic_store(&board->victim, (int)syscall(SYS_gettid));
    while (!atomic_load(&board->may_run))
        sched_yield();
    for (int i = 0; i < 40; i++)
        live_step(live, SIZE_MAX_HERE);
    if (!is_waiting)
        of_front[lives++ % LIVES_MAX] = malloc(GROWTH_BYTES); /* never touched */
    burst(&live->seed);
    malloc_trim(0);
    return NULL;
}

static void run_program(void)
{
    static struct live of_victim = {.seed = 9};
    pthread_t workers[WORKERS], thread;
    struct rlimit limit = {GIB / 2, GIB / 2};
    CHECK(!is_waiting || setrlimit(RLIMIT_DATA, &limit) == 0, "setrlimit");
    for (size_t w = 0; w < WORKERS; w++) {
        of_workers[w].seed = w + 1;
        start(&workers[w], is_waiting ? waiting_worker : worker, &of_workers[w]);
    }
    while (!atomic_load(&board->is_over)) {
        start(&thread, victim, &of_victim);
        pthread_join(thread, NULL);
        atomic_store(&board->may_run, false);
    }
    for (size_t w = 0; w < WORKERS; w++) {
        pthread_join(workers[w], NULL);
        live_end(&of_workers[w]);
    }
    live_end(&of_victim);
    for (unsigned i = 0; i < LIVES_MAX; i++)
        free(of_front[i]);
    check_heap();
    _exit(0);
}

static void wait_for_workers(unsigned long steps)
{
    unsigned long target = atomic_load(&board->worker_steps) + steps;
    while (atomic_load(&board->worker_steps) < target)
        sleep_ms(1);
}

/* Lets the thread go on as `request` says; false: it has ended. */
static bool go_on(pid_t thread, int request)
{
    int status;
    if (ptrace(request, thread, NULL, NULL) != 0)
        return false;
    CHECK(waitpid(thread, &status, __WALL) == thread, "waitpid");
    return WIFSTOPPED(status);
}

/* To the end of the `nth` call of this number; false: the thread ended before. */
static bool run_to_call(pid_t thread, long call, unsigned long nth)
{
    bool is_entered = false;
    while (go_on(thread, PTRACE_SYSCALL)) {
        struct __ptrace_syscall_info info;
        if (ptrace(PTRACE_GET_SYSCALL_INFO, thread, sizeof info, &info) <= 0)
            check_skip("the kernel does not tell which call a thread stops at");
        if (info.op == PTRACE_SYSCALL_INFO_ENTRY)
            is_entered = (long)info.entry.nr == call;
        else if (info.op == PTRACE_SYSCALL_INFO_EXIT && is_entered && nth-- == 0)
            return true;
    }
    return false;
}

static long call_of(const char *name)
{
    if (strcmp(name, "mremap") == 0)
        return SYS_mremap;
    return strcmp(name, "mprotect") == 0 ? SYS_mprotect : SYS_madvise;
}

/* Whether one was held inside. */
static bool hold_one(long call, unsigned long *seed)
{
    int status;
    pid_t thread;
    while ((thread = atomic_load(&board->victim)) == 0)
        sleep_ms(1);
    CHECK(ptrace(PTRACE_SEIZE, thread, NULL, PTRACE_O_TRACESYSGOOD) == 0, "ptrace");
    CHECK(ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) == 0, "ptrace");
    CHECK(waitpid(thread, &status, __WALL) == thread && WIFSTOPPED(status), "waitpid");
    atomic_store(&board->victim, 0);
    atomic_store(&board->may_run, true);
    /* A life has few of these, where others trim as well. */
    bool is_growth = call == SYS_mprotect || call == SYS_mremap;
    bool is_rare = is_growth || (is_waiting && call == SYS_madvise);
    unsigned long calls = is_rare ? 1 : CALLS_MAX;
    bool is_inside = run_to_call(thread, call, random_next(seed) % calls);
    for (unsigned long steps = random_next(seed) % STEPS_MAX; is_inside && steps > 0; steps--)
        is_inside = go_on(thread, PTRACE_SINGLESTEP);
    if (is_inside) {
        wait_for_workers(is_waiting ? STEPS_WAITING : STEPS_WHILE_HELD);
        ptrace(PTRACE_DETACH, thread, NULL, NULL);
    }
    return is_inside;
}

int main(int count, char **words)
{
    check_is_calmalloc();
    check_time_limit(110);
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(board != MAP_FAILED && count >= 2, "held_inside CALL [waiting]");
    is_waiting = count > 2;
    const int enough = is_waiting ? STOPS_WAITING : STOPS;
    pid_t program = fork();
    if (program == 0) {
        check_time_limit(100);
        run_program();
    }
    unsigned long seed = 3;
    int held = 0;
    wait_for_workers(is_waiting ? STEPS_WAITING : STEPS_WHILE_HELD);
    for (int i = 0; i < STOPS && held < enough; i++)
        held += hold_one(call_of(words[1]), &seed);
    atomic_store(&board->is_over, true);
    atomic_store(&board->may_run, true);
    check_child_succeeds(program, "the program");
    printf("held %d times\n", held);
    CHECK(held > (is_waiting ? 1 : STOPS / 2), "a thread was held only %d times", held);
    return 0;
}
