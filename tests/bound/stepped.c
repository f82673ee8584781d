/*
 * stepped.c: counts the instructions of real calls, one step at a time, and compares the most with
 * what calm_pool_bound says.
 *
 *   bound_stepped SEED CALLS [remote]
 *
 * The child makes random calls on a pool, right ones and wrong ones, each between two breakpoints;
 * the parent steps from the operation's first instruction until it has returned. A pool for each
 * set of features that has bounds of its own (pool/bound.c). Fails when a call took more than that
 * pool's bound, or when an operation was not seen.
 *
 * remote: a second thread, which is not stepped, frees what the first one passes to it, right and
 * wrong, and some of it again and again, so that words change between any two instructions of the
 * owner's call; on every third pool: each feature alone or beside another, and all. Fails as well
 * when that thread freed nothing during the calls. Exit code 77: this machine does not allow
 * tracing.
 */
#define _GNU_SOURCE
#include "calmalloc/pool.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ALLOC, ALLOC_ALIGNED, FREE, FREE_REMOTE, DRAIN, KINDS };
enum { LIVE_MAX = 4096, STEPS_MAX = 100000, SKIP = 77, POOLS = 8, CLASSES = 20 };
enum { PASSED = 64, AGAIN = 32, FREED_WANTED = 20, CALLS_MORE = 50, REMOTE_POOLS = 3 };

/* A pool's number says what it has. */
enum { WITH_SPILL = 1, WITH_CODES = 2, WITH_LARGE = 4 };

static const char *const kind_names[KINDS] = {"alloc", "alloc_aligned", "free", "free_remote",
                                              "drain"};

/* What the child is about to call; the parent reads. */
static struct shared {
    volatile int kind;
    volatile uint64_t entry;
    volatile bool is_over;
    volatile uint64_t freed_meanwhile; /* by the other thread, during a call that was stepped */
} *shared;

static uint64_t random_state;

static uint64_t next_random(uint64_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (random_state >> 20) % below;
}

static size_t sizes[CLASSES];
static uint32_t shares[CLASSES];

static struct calm_pool_config config_of(unsigned index)
{
    bool is_coded = (index & WITH_CODES) != 0, is_large = (index & WITH_LARGE) != 0;
    size_t classes = is_coded ? CLASSES : index == 0 ? 1 : 4;
    for (unsigned i = 0; i < classes; i++) {
        sizes[i] = is_coded ? (size_t)48 * (i + 1) : (size_t)128 << i;
        shares[i] = (uint32_t)(100 / classes);
    }
    if (is_large)
        sizes[classes - 1] = 8000;
    struct calm_pool_config config = {
        .block_bytes = sizes, .percent = shares, .classes = classes, .bytes = 1 << 18};
    config.flags = (index & WITH_SPILL) != 0 ? CALM_POOL_SPILL : 0;
    return config;
}

/* The traced part: volatile pointers, so that each call is one call of the shipped function. */
static void *(*volatile call_alloc)(calm_pool *, size_t) = calm_pool_alloc;
static void *(*volatile call_aligned)(calm_pool *, size_t, size_t) = calm_pool_alloc_aligned;
static int (*volatile call_free)(calm_pool *, void *) = calm_pool_free;
static int (*volatile call_remote)(calm_pool *, void *) = calm_pool_free_remote;
static uint32_t (*volatile call_drain)(calm_pool *) = calm_pool_drain;

static void announce(int kind, uint64_t entry)
{
    shared->kind = kind;
    shared->entry = entry;
    __asm__ volatile("int3" ::: "memory");
}

static void *live[LIVE_MAX];
static unsigned live_count;

static void *some_block(void)
{
    if (live_count == 0 || next_random(16) == 0)
        return (void *)next_random(UINT64_C(1) << 47); /* foreign */
    unsigned at = (unsigned)next_random(live_count);
    char *block = live[at];
    if (next_random(12) == 0)
        return block + next_random(40); /* inside */
    if (next_random(12) != 0) {         /* otherwise it is freed twice */
        live_count--;
        live[at] = live[live_count];
    }
    return block;
}

static void keep(void *block)
{
    if (block != NULL && live_count < LIVE_MAX)
        live[live_count++] = block;
}

/* The thread that frees meanwhile, of one pool. */
static calm_pool *freers_pool; /* NULL: there is no such thread */
static _Atomic(void *) passed[PASSED];
static _Atomic uint64_t freed;

static void *free_meanwhile(void *unused)
{
    void *again[AGAIN] = {0};
    for (unsigned at = 0;; at++) {
        void *block = atomic_exchange(&passed[at % PASSED], NULL);
        if (block != NULL)
            again[at % AGAIN] = block;
        if (calm_pool_free_remote(freers_pool, again[at % AGAIN]) == CALM_OK &&
            again[at % AGAIN] != NULL)
            atomic_fetch_add(&freed, 1);
        if (at % PASSED == 0)
            sched_yield();
    }
    return unused;
}

/* Whether the other thread will free the block, if there is such a thread and it has room. */
static bool pass(void *block)
{
    void *nothing = NULL;
    return freers_pool != NULL && next_random(2) == 0 &&
           atomic_compare_exchange_strong(&passed[next_random(PASSED)], &nothing, block);
}

static void call_one(calm_pool *pool, size_t largest)
{
    uint64_t what = next_random(20);
    size_t bytes = next_random(largest + largest / 16);
    if (what < 8) {
        announce(ALLOC, (uint64_t)calm_pool_alloc);
        keep(call_alloc(pool, bytes));
    } else if (what < 10) {
        size_t align = (size_t)1 << next_random(14);
        announce(ALLOC_ALIGNED, (uint64_t)calm_pool_alloc_aligned);
        keep(call_aligned(pool, bytes, align));
    } else if (what < 14) {
        void *block = some_block();
        announce(FREE, (uint64_t)calm_pool_free);
        call_free(pool, block);
    } else if (what < 18) {
        void *block = some_block();
        if (pass(block))
            return;
        announce(FREE_REMOTE, (uint64_t)calm_pool_free_remote);
        call_remote(pool, block);
    } else {
        announce(DRAIN, (uint64_t)calm_pool_drain);
        call_drain(pool);
    }
}

static bool begin_freer(calm_pool *pool)
{
    pthread_t freer;
    freers_pool = pool;
    return pthread_create(&freer, NULL, free_meanwhile, NULL) == 0;
}

static int run_child(unsigned index, unsigned calls, bool is_remote)
{
    struct calm_pool_config config = config_of(index);
    calm_pool *pool;
    if (calm_pool_create(&config, &pool) != CALM_OK || ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
        return SKIP;
    raise(SIGSTOP);
    if (is_remote && !begin_freer(pool))
        return SKIP;
    /* Where the other thread seldom gets a processor, it takes more calls until it has done much.
     */
    for (unsigned i = 0; i < calls || (is_remote && shared->freed_meanwhile < FREED_WANTED &&
                                       i < calls * CALLS_MORE);
         i++) {
        uint64_t before = atomic_load(&freed);
        call_one(pool, sizes[config.classes - 1]);
        shared->freed_meanwhile += atomic_load(&freed) - before;
    }
    shared->is_over = true;
    __asm__ volatile("int3");
    return 0;
}

/* Others may stop all processes for a while. The child has not stepped then, and does not get the
 * signal. */
static bool is_from_outside(int status)
{
    return WIFSTOPPED(status) && (WSTOPSIG(status) == SIGSTOP || WSTOPSIG(status) == SIGCONT);
}

static bool step(pid_t pid, struct user_regs_struct *registers)
{
    int status;
    do
        if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) != 0 || waitpid(pid, &status, 0) != pid)
            return false;
    while (is_from_outside(status));
    return WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP &&
           ptrace(PTRACE_GETREGS, pid, NULL, registers) == 0;
}

/* From the breakpoint to the return of the call behind it; its instructions, or -1. */
static long count_call(pid_t pid)
{
    struct user_regs_struct registers;
    long count = 0;
    if (ptrace(PTRACE_GETREGS, pid, NULL, &registers) != 0)
        return -1;
    for (int i = 0; registers.rip != shared->entry; i++)
        if (i == STEPS_MAX || !step(pid, &registers))
            return -1;
    uint64_t stack = registers.rsp;
    while (registers.rsp <= stack) {
        if (++count == STEPS_MAX || !step(pid, &registers))
            return -1;
    }
    return count;
}

static bool follow(pid_t pid, long most[KINDS], long seen[KINDS])
{
    int status;
    while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) {
        if (shared->is_over)
            return true;
        if (WSTOPSIG(status) == SIGTRAP) {
            int kind = shared->kind;
            long count = count_call(pid);
            if (count < 0)
                return false;
            most[kind] = count > most[kind] ? count : most[kind];
            seen[kind]++;
        }
        if (ptrace(PTRACE_CONT, pid, NULL, NULL) != 0)
            return false;
    }
    return false;
}

static int judge(unsigned index, const long most[KINDS], const long seen[KINDS])
{
    struct calm_pool_config config = config_of(index);
    struct calm_pool_limits limits;
    int code = calm_pool_bound(&config, &limits);
    if (code != CALM_OK) {
        fprintf(stderr, "bound_stepped: no bound: %s\n", calm_strerror(code));
        return 1;
    }
    const uint32_t allowed[KINDS] = {limits.alloc.instructions, limits.alloc_aligned.instructions,
                                     limits.free.instructions, limits.free_remote.instructions,
                                     limits.drain.instructions};
    int wrong = 0;
    for (int kind = 0; kind < KINDS; kind++) {
        printf("pool %u: %-14s %5ld calls, at most %4ld instructions, bound %4" PRIu32 "\n", index,
               kind_names[kind], seen[kind], most[kind], allowed[kind]);
        wrong |= seen[kind] == 0 || most[kind] > (long)allowed[kind];
    }
    return wrong;
}

int main(int argc, char **argv)
{
    bool is_remote = argc == 4 && strcmp(argv[3], "remote") == 0;
    if (argc != 3 && !is_remote) {
        fprintf(stderr,
                "bound_stepped: give a seed, the number of calls, and `remote` or nothing\n");
        return 2;
    }
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int wrong = shared == MAP_FAILED;
    for (unsigned index = 0; index < POOLS && wrong == 0; index += is_remote ? REMOTE_POOLS : 1) {
        long most[KINDS] = {0}, seen[KINDS] = {0};
        random_state = strtoull(argv[1], NULL, 10) * UINT64_C(0x9e3779b97f4a7c15) + index + 1;
        shared->is_over = false;
        shared->freed_meanwhile = 0;
        pid_t pid = fork();
        if (pid == 0)
            _exit(run_child(index, (unsigned)strtoul(argv[2], NULL, 10), is_remote));
        bool is_followed = follow(pid, most, seen);
        int status;
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        if (!is_followed) {
            fprintf(stderr, "bound_stepped: the calls could not be followed.\n");
            return WIFEXITED(status) && WEXITSTATUS(status) == SKIP ? SKIP : 1;
        }
        wrong = judge(index, most, seen);
        if (is_remote) {
            printf("pool %u: %" PRIu64 " remote frees meanwhile\n", index, shared->freed_meanwhile);
            wrong |= shared->freed_meanwhile == 0;
        }
    }
    return wrong;
}
