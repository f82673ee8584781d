/*
 * address_limit.c: started under `ulimit -v` (the argument, in MiB; the program sets it and starts
 * itself again), a program can use most of its budget, gets NULL and ENOMEM when it is used up,
 * frees, and can do the same again. The chain of blocks runs through the blocks, so that the test
 * needs no memory of its own.
 */
#define _GNU_SOURCE

#include "check.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct link {
    struct link *next;
};

static struct link *chain;

/* Takes blocks of `size` until there are no more; returns how many bytes they hold. Each is written
 * to. */
static size_t take_all(size_t size)
{
    size_t total = 0;
    for (;;) {
        errno = 0;
        struct link *block = malloc(size);
        if (block == NULL)
            break;
        memset(block, 0x3C, size);
        block->next = chain;
        chain = block;
        total += size;
    }
    CHECK(errno == ENOMEM, "out of memory is errno %d", errno);
    return total;
}

static void give_all(void)
{
    while (chain != NULL) {
        struct link *next = chain->next;
        errno = 5;
        free(chain);
        CHECK(errno == 5, "free changed errno to %d", errno);
        chain = next;
    }
}

static void check_failing_calls(void)
{
    errno = 0;
    CHECK(calloc(1000, 1000000) == NULL && errno == ENOMEM, "calloc at the limit: errno %d", errno);
    void *block = NULL;
    CHECK(posix_memalign(&block, 4096, 512 * MIB) == ENOMEM && block == NULL,
          "posix_memalign at the limit");
    errno = 0;
    CHECK(realloc(chain, 1024 * MIB) == NULL && errno == ENOMEM, "realloc at the limit: errno %d",
          errno);
}

int main(int argc, char **argv)
{
    CHECK(argc >= 2, "usage: address_limit MIB");
    size_t budget = strtoul(argv[1], NULL, 10) * MIB;
    check_is_limited_to(budget, argv);
    check_is_calmalloc();
    check_time_limit(60);
    static const size_t sizes[] = {1000, 64, 30000, 200000, 3 * MIB, 100};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t total = take_all(sizes[i]);
        printf("%zu MiB in blocks of %zu bytes\n", total / MIB, sizes[i]);
        fflush(stdout);
        CHECK(total >= budget / 100 * 65, "only %zu of %zu MiB can be had in blocks of %zu",
              total / MIB, budget / MIB, sizes[i]);
        check_failing_calls();
        give_all();
        void *after = malloc(budget / 4);
        CHECK(after != NULL, "nothing can be had after all was freed");
        free(after);
    }
    return 0;
}
