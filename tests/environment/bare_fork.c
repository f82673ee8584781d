/*
 * bare_fork.c: a process that has a purge helper is forked by the bare system call, past the C
 * library and its handlers. The child knows that it has no helper: it gets one of its own when it
 * has freed enough, as do children of the child.
 *
 * Seen to fail with the helper's words where a child has copies of them.
 */
#define _GNU_SOURCE

#include "check.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BLOCKS = 64, GENERATIONS = 2, WAIT_MS = 20000 };

/* Frees some MiB, several times, until there is a helper. */
static void get_helper(const char *whose)
{
    static void *blocks[BLOCKS];
    for (unsigned waited = 0; task_count() < 2; waited += 10) {
        CHECK(waited < WAIT_MS, "%s has no helper", whose);
        for (size_t i = 0; i < BLOCKS; i++) {
            blocks[i] = malloc(MIB);
            CHECK(blocks[i] != NULL, "no memory");
            memset(blocks[i], 1, MIB);
        }
        for (size_t i = 0; i < BLOCKS; i++)
            free(blocks[i]);
        sleep_ms(10);
    }
}

static void live(unsigned generation)
{
    check_time_limit(60);
    get_helper(generation == 0 ? "the program" : "a child");
    if (generation == GENERATIONS)
        return;
    pid_t child = (pid_t)syscall(SYS_clone, 17 /* SIGCHLD */, 0, 0, 0, 0);
    if (child == 0) {
        live(generation + 1);
        _exit(0);
    }
    check_child_succeeds(child, "a child");
}

int main(void)
{
    check_is_calmalloc();
    live(0);
    return 0;
}
