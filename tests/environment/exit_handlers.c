/*
 * exit_handlers.c: handlers that run at exit allocate, free what was allocated in main, and leave
 * blocks to the handlers that run after them; the very last is a destructor of the lowest priority
 * number. The argument says how the program ends: return, exit, quick_exit, thread (exit is called
 * by a thread), pthread_exit (main ends first).
 */
#define _GNU_SOURCE

#include "check.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef __GLIBC__
enum { HAS_ON_EXIT = 1 };
#else
enum { HAS_ON_EXIT = 0 };
#endif

enum { BLOCKS = 1000, STAGES = 4 + HAS_ON_EXIT };

static void *blocks[BLOCKS];
static int stages_run;
static bool is_quick;

static size_t size_of(size_t i)
{
    return i % 100 == 0 ? 100000 + i : 1 + i * 13 % 5000;
}

static void renew_blocks(void)
{
    for (size_t i = 0; i < BLOCKS; i++) {
        CHECK(blocks[i] == NULL || block_is_signed(blocks[i], size_of(i)),
              "a block was overwritten");
        free(blocks[i]);
        blocks[i] = malloc(size_of(i));
        CHECK(blocks[i] != NULL, "no memory");
        block_sign(blocks[i], size_of(i));
    }
    stages_run++;
}

static void at_exit(void)
{
    renew_blocks();
}

#ifdef __GLIBC__
static void on_exit_handler(int status, void *argument)
{
    CHECK(status == 0, "status %d", status);
    free(argument);
    renew_blocks();
}
#endif

static void at_quick_exit_handler(void)
{
    renew_blocks();
    CHECK(stages_run == 2, "%d stages ran", stages_run);
}

__attribute__((destructor(101))) static void last(void)
{
    if (is_quick)
        return;
    renew_blocks();
    for (size_t i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    if (stages_run != STAGES)
        _exit(3);
}

static void *end_program(void *argument)
{
    (void)argument;
    renew_blocks();
    exit(0);
}

static void *end_after_main(void *argument)
{
    pthread_join(*(pthread_t *)argument, NULL);
    renew_blocks();
    return NULL;
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "return";
    check_is_calmalloc();
    check_time_limit(30);
    CHECK(atexit(at_exit) == 0 && atexit(at_exit) == 0, "no handler");
#ifdef __GLIBC__
    CHECK(on_exit(on_exit_handler, malloc(100)) == 0, "no handler");
#endif
    CHECK(at_quick_exit(at_quick_exit_handler) == 0, "no handler");
    static pthread_t thread, self;
    self = pthread_self();
    if (strcmp(way, "thread") == 0) {
        CHECK(pthread_create(&thread, NULL, end_program, NULL) == 0, "no thread");
        pthread_join(thread, NULL);
    }
    if (strcmp(way, "pthread_exit") == 0) {
        CHECK(pthread_create(&thread, NULL, end_after_main, &self) == 0, "no thread");
        pthread_exit(NULL);
    }
    renew_blocks();
    if (strcmp(way, "quick_exit") == 0) {
        is_quick = true;
        quick_exit(0);
    }
    if (strcmp(way, "exit") == 0)
        exit(0);
    return 0;
}
