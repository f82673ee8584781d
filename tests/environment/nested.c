/*
 * nested.c: a program whose own `madvise`, which the heap calls for pages that go back, allocates
 * and frees blocks of many sizes, also those that the unfinished request beneath is about to get.
 * No block has two owners.
 *
 * Seen to fail with the profiler: a request armed an entry that the nested ones had armed.
 */
#define _GNU_SOURCE

#include "check.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BLOCKS = 60000, NESTED = 300, NESTED_LIVE = 4000, ROUNDS = 24 };

struct held {
    unsigned char *block;
    size_t size;
    unsigned char mark;
};

static struct held blocks[BLOCKS], nested[NESTED_LIVE];
static unsigned calls, depth, marks;

static uint64_t drawn(void)
{
    static uint64_t state = 88172645463325252;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

static void release(struct held *held)
{
    for (size_t i = 0; held->block != NULL && i < held->size; i++)
        CHECK(held->block[i] == held->mark, "byte %zu of a block of %zu has another owner, too", i,
              held->size);
    free(held->block);
    held->block = NULL;
}

static void hold(struct held *held, size_t size)
{
    *held = (struct held){malloc(size), size, (unsigned char)(marks++ % 251 + 1)};
    CHECK(held->block != NULL, "no memory");
    memset(held->block, held->mark, size);
}

int madvise(void *start, size_t size, int advice)
{
    static unsigned next;
    if (depth++ == 0) {
        calls++;
        for (unsigned i = 0; i < NESTED; i++, next++) {
            struct held *held = &nested[next % NESTED_LIVE];
            release(held);
            hold(held, 16 + next % 16 * 16);
        }
    }
    depth--;
    return (int)syscall(SYS_madvise, start, size, advice);
}

static void change(struct held *held)
{
    uint64_t number = drawn();
    if (held->block != NULL)
        release(held);
    else
        hold(held, number % 20 == 0 ? 300 + number / 32 % 3000 : 16 + number / 32 % 16 * 16);
}

int main(void)
{
    check_is_calmalloc();
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < BLOCKS; i++)
            if (drawn() % 3 != 0)
                change(&blocks[i]);
        for (unsigned i = 0; round % 4 == 3 && i < BLOCKS; i++)
            release(&blocks[i]);
        for (unsigned i = 0; round % 4 == 3 && i < BLOCKS; i++)
            hold(&blocks[i], 16 + drawn() % 240);
        struct held large = {0};
        hold(&large, 3 * MIB + drawn() % (4 * MIB));
        release(&large);
    }
    CHECK(calls > ROUNDS, "only %u calls of madvise", calls);
    depth = 1; /* from here on nothing is nested */
    for (unsigned i = 0; i < BLOCKS; i++)
        release(&blocks[i]);
    for (unsigned i = 0; i < NESTED_LIVE; i++)
        release(&nested[i]);
    check_heap();
    return 0;
}
