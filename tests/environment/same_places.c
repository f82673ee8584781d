/*
 * same_places.c: where each run is to have the same addresses (ADDR_NO_RANDOMIZE, as gdb and
 * `setarch -R` ask for), blocks have them, too: small, medium and large ones, and a thread's.
 * Elsewhere no two runs have the same.
 *
 * Seen to fail with places that are random in any case, and with one place for all.
 */
#define _GNU_SOURCE

#include "check.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 5 };

static void *block_of_thread(void *unused)
{
    (void)unused;
    return malloc(200);
}

static void tell(void)
{
    pthread_t thread;
    void *blocks[BLOCKS] = {malloc(24), malloc(3000), malloc(100000), malloc(50 * MIB), NULL};
    CHECK(pthread_create(&thread, NULL, block_of_thread, NULL) == 0, "no thread");
    CHECK(pthread_join(thread, &blocks[BLOCKS - 1]) == 0, "the thread does not end");
    check_is_calmalloc();
    CHECK(write(STDOUT_FILENO, blocks, sizeof blocks) == (ssize_t)sizeof blocks, "no answer");
}

static void run(char *program, bool is_random, void *blocks[BLOCKS])
{
    int ends[2], status;
    CHECK(pipe(ends) == 0, "no pipe");
    pid_t child = fork();
    if (child == 0) {
        int now = personality(0xffffffff);
        int flags = is_random ? now & ~ADDR_NO_RANDOMIZE : now | ADDR_NO_RANDOMIZE;
        if (now == -1 || personality((unsigned long)flags) == -1)
            _exit(77);
        dup2(ends[1], STDOUT_FILENO);
        execl("/proc/self/exe", program, "tell", NULL);
        _exit(1);
    }
    close(ends[1]);
    ssize_t had = read(ends[0], blocks, BLOCKS * sizeof *blocks);
    close(ends[0]);
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status), "the child was killed");
    if (WEXITSTATUS(status) == 77)
        check_skip("the machine does not let a process choose");
    CHECK(WEXITSTATUS(status) == 0 && had == (ssize_t)(BLOCKS * sizeof *blocks), "no answer");
}

int main(int argc, char **argv)
{
    void *first[BLOCKS], *second[BLOCKS];
    if (argc == 2 && strcmp(argv[1], "tell") == 0) {
        tell();
        return 0;
    }
    run(argv[0], false, first);
    run(argv[0], false, second);
    for (size_t i = 0; i < BLOCKS; i++)
        CHECK(first[i] == second[i], "block %zu is at %p, then at %p", i, first[i], second[i]);
    run(argv[0], true, first);
    run(argv[0], true, second);
    for (size_t i = 0; i < BLOCKS; i++)
        CHECK(first[i] != second[i], "block %zu is at %p twice", i, first[i]);
    return 0;
}
