/*
 * vfork_frees.c: a child of vfork frees much, on its parent's memory. It starts no helper that
 * gives memory back: such a thread would end with the child, whatever lock of the parent's it
 * holds. The parent gets one afterwards, when it frees as much.
 *
 * Seen to fail with a helper that is started by whoever has freed enough.
 */
#define _GNU_SOURCE

#include "check.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCKS = 16, ROUNDS = 20, WAIT_MS = 20000 };

static void free_much(void)
{
    static void *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(MIB);
        CHECK(blocks[i] != NULL, "no memory");
        memset(blocks[i], 1, MIB);
    }
    for (size_t i = 0; i < BLOCKS; i++)
        free(blocks[i]);
}

int main(void)
{
    check_is_calmalloc();
    check_time_limit(60);
    free(hidden(malloc(100)));
    for (int i = 0; i < ROUNDS; i++) {
        pid_t child = vfork();
        if (child == 0) {
            free_much();
            _exit(task_count() == 1 ? 0 : 1);
        }
        check_child_succeeds(child, "a child of vfork, which must not have a second thread,");
    }
    for (unsigned waited = 0; task_count() < 2; waited += 10) {
        CHECK(waited < WAIT_MS, "the program has no helper");
        free_much();
        sleep_ms(10);
    }
    check_heap();
    return 0;
}
