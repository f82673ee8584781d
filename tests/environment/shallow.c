/*
 * shallow.c: no call of the heap takes more stack than the argument, in bytes: coroutines and
 * fibers run on stacks of a few KiB.
 *
 * Threads run a load on stacks of their own, filled with a pattern, and exchange blocks, so that
 * they refill, flush, purge and free each other's blocks. The deepest byte that changed tells. Seen
 * to fail while a bin that grows flushes others below the array of a refill.
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
#include <ucontext.h>

enum { THREADS = 4, SLOTS = 20000, STEPS = 400000, STACK_BYTES = 256 * 1024, PATTERN = 0xA5 };

static void *_Atomic slots[SLOTS];

struct worker {
    pthread_t thread;
    unsigned long seed;
    unsigned char *stack;
    size_t depth;
    ucontext_t outside, inside;
};

static _Thread_local struct worker *own;

static size_t some_size(unsigned long *seed)
{
    size_t random = random_next(seed);
    switch (random % 64) {
    case 0: return 1 + random / 64 % (8 * MIB);
    case 1: return 1 + random / 64 % (256 * KIB);
    default: return 1 + random / 64 % 1500;
    }
}

static void step(unsigned long *seed)
{
    void *_Atomic *slot = &slots[random_next(seed) % SLOTS];
    size_t size = some_size(seed);
    void *block = atomic_exchange(slot, NULL), *other = NULL;
    switch (random_next(seed) % 16) {
    case 0: block = realloc(block, size); break;
    case 1: CHECK(posix_memalign(&other, 256, size) == 0, "no memory"); break;
    case 2: other = calloc(1, size); break;
    case 3: break;
    default: other = malloc(size);
    }
    if (other != NULL) {
        free(block);
        block = other;
    }
    free(atomic_exchange(slot, block));
}

static void load(void)
{
    for (size_t i = 0; i < STEPS; i++) {
        step(&own->seed);
        if (i % (STEPS / 4) == STEPS / 4 - 1)
            malloc_trim(0);
    }
}

static void *run(void *argument)
{
    own = argument;
    memset(own->stack, PATTERN, STACK_BYTES);
    CHECK(getcontext(&own->inside) == 0, "no context");
    own->inside.uc_stack.ss_sp = own->stack;
    own->inside.uc_stack.ss_size = STACK_BYTES;
    own->inside.uc_link = &own->outside;
    makecontext(&own->inside, load, 0);
    CHECK(swapcontext(&own->outside, &own->inside) == 0, "no switch");
    size_t untouched = 0;
    while (own->stack[untouched] == PATTERN)
        untouched++;
    own->depth = STACK_BYTES - untouched;
    return NULL;
}

int main(int argc, char **argv)
{
    static struct worker workers[THREADS];
    size_t most = argc > 1 ? strtoul(argv[1], NULL, 10) : 0, deepest = 0;
    check_is_calmalloc();
    for (size_t i = 0; i < THREADS; i++) {
        workers[i].seed = i + 1;
        workers[i].stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(workers[i].stack != MAP_FAILED, "no stack");
        CHECK(pthread_create(&workers[i].thread, NULL, run, &workers[i]) == 0, "no thread");
    }
    for (size_t i = 0; i < THREADS; i++) {
        CHECK(pthread_join(workers[i].thread, NULL) == 0, "no end");
        deepest = workers[i].depth > deepest ? workers[i].depth : deepest;
    }
    printf("%zu bytes of stack\n", deepest);
    CHECK(deepest <= most, "a call took %zu bytes of stack; %zu are allowed", deepest, most);
    return 0;
}
