/*
 * raw_exit.c: threads end by the bare system call, so that no destructor of theirs runs, while they
 * hold a cache full of blocks. The others go on; blocks of the dead are freed by the living; the
 * heap stays consistent, and what is lost is bounded by a cache each.
 */
#define _GNU_SOURCE

#include "check.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { THREADS = 300, BLOCKS = 400, CACHE_KIB_MAX = 1024 };

static void *left[BLOCKS];

static size_t size_of(size_t i)
{
    return 1 + i * 7 % 1000;
}

static void *worker(void *argument)
{
    void *freed[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        freed[i] = malloc(size_of(i));
        left[i] = malloc(size_of(i));
        CHECK(freed[i] != NULL && left[i] != NULL, "no memory");
        block_sign(left[i], size_of(i));
    }
    for (size_t i = 0; i < BLOCKS; i++)
        free(freed[i]);
    syscall(SYS_exit, 0);
    return argument;
}

static void run_threads(int count)
{
    for (int t = 0; t < count; t++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, worker, NULL) == 0, "no thread");
        pthread_join(thread, NULL);
        for (size_t i = 0; i < BLOCKS; i++) {
            CHECK(block_is_signed(left[i], size_of(i)), "a block of a dead thread was overwritten");
            free(left[i]);
        }
    }
}

int main(void)
{
    check_is_calmalloc();
    check_time_limit(60);
    run_threads(20);
    size_t before = resident_bytes();
    run_threads(THREADS);
    size_t after = resident_bytes();
    size_t each = after > before ? (after - before) / THREADS : 0;
    printf("a thread that dies leaves %zu KiB behind\n", each / KIB);
    CHECK(each < CACHE_KIB_MAX * KIB, "a thread that dies leaves %zu KiB behind", each / KIB);
    const char *(*verify)(void);
    *(void **)&verify = dlsym(RTLD_DEFAULT, "calm_verify");
    CHECK(verify != NULL, "no calm_verify");
    CHECK(verify() == NULL, "%s", verify());
    return 0;
}
