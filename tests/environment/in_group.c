/*
 * in_group.c: a program that grows until it is refused, in a control group with a limit, under
 * limit=cgroup: several threads, blocks of all sizes, zeroed ones, one that grows, again and again.
 * It is refused or asked, never killed.
 *
 *   in_group SEED
 *
 * An odd seed has a callback that frees what can be made again; it is to be called before any
 * request is refused. group_runs.py makes the group.
 * Seen to fail, by being killed, without limit=cgroup.
 */
#define _GNU_SOURCE

#include "check.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 3, THREADS_MAX = 3, SPARE_BLOCKS = 64, SPARE_BYTES = 128 << 10 };

struct link {
    struct link *next;
};

static unsigned long seed;
static void *_Atomic spare[SPARE_BLOCKS];
static _Atomic unsigned calls, refusals, early;

/* Frees what is spare. */
static void on_limit(size_t bytes_over)
{
    CHECK(bytes_over > 0, "called with nothing over");
    atomic_fetch_add(&calls, 1);
    for (unsigned i = 0; i < SPARE_BLOCKS; i++)
        free(atomic_exchange(&spare[i], NULL));
}

static void fill_spare(void)
{
    for (unsigned i = 0; i < SPARE_BLOCKS; i++) {
        char *block = malloc(SPARE_BYTES);
        CHECK(block != NULL, "no memory for what is spare");
        memset(block, 3, SPARE_BYTES);
        atomic_store(&spare[i], block);
    }
}

static void note_refusal(void)
{
    CHECK(errno == ENOMEM, "a refusal with another error");
    if (atomic_load(&calls) == 0)
        atomic_fetch_add(&early, 1);
    atomic_fetch_add(&refusals, 1);
}

/* Blocks of up to `most` bytes, all touched, until one is refused. */
static struct link *fill(unsigned long *random, size_t most, bool is_zeroed)
{
    struct link *blocks = NULL;
    for (;;) {
        size_t size = sizeof(struct link) + random_next(random) % most;
        struct link *block = is_zeroed ? calloc(1, size) : malloc(size);
        if (block == NULL)
            break;
        memset(block, 1, size);
        block->next = blocks;
        blocks = block;
    }
    note_refusal();
    return blocks;
}

/* One block that grows until that is refused. */
static void grow(unsigned long *random)
{
    size_t size = 4096;
    char *block = malloc(size);
    while (block != NULL) {
        size_t larger = size + size / (2 + random_next(random) % 30) + 1;
        char *grown = realloc(block, larger);
        if (grown == NULL)
            break;
        memset(grown + size, 2, larger - size);
        block = grown;
        size = larger;
    }
    note_refusal();
    free(block);
}

static void *work(void *argument)
{
    unsigned long random = seed * 1000 + (unsigned long)(size_t)argument;
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct link *blocks = NULL;
        if (random_next(&random) % 4 == 0)
            grow(&random);
        else
            blocks = fill(&random, (size_t)16 << random_next(&random) % 18,
                          random_next(&random) % 3 == 0);
        while (blocks != NULL) {
            struct link *next = blocks->next;
            free(blocks);
            blocks = next;
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    CHECK(argc == 2, "usage: in_group SEED");
    seed = strtoul(argv[1], NULL, 10);
    check_is_calmalloc();
    check_time_limit(60);
    if (seed % 2 == 1) {
        void (*tell)(void (*)(size_t)) = NULL;
        *(void **)&tell = dlsym(RTLD_DEFAULT, "calm_on_limit");
        CHECK(tell != NULL, "no calm_on_limit");
        fill_spare();
        tell(on_limit);
    }
    pthread_t threads[THREADS_MAX];
    size_t count = seed / 2 % (THREADS_MAX + 1);
    for (size_t i = 0; i < count; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)(i + 1)) == 0, "no thread");
    work(NULL);
    for (size_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    bool is_told = seed % 2 == 1;
    CHECK(!is_told || atomic_load(&calls) > 0, "the callback was never called");
    CHECK(!is_told || atomic_load(&early) == 0,
          "a request was refused before the callback was called");
    printf("%u refusals, %u calls\n", atomic_load(&refusals), atomic_load(&calls));
    return 0;
}
