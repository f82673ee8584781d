/*
 * vfork_frees.c: a child of vfork frees much, on its parent's memory, and gives it back as its
 * parent would: both have one task, before and after, and the heap stays whole.
 */
#define _GNU_SOURCE

#include "check.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCKS = 16, ROUNDS = 20 };

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
    free_much();
    CHECK(task_count() == 1, "the parent has a second thread");
    check_heap();
    return 0;
}
