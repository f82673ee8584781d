/*
 * heard.c: the program that is traced: asks for blocks of all sizes, and tells at its end how many
 * bytes it asked for and how many of these live.
 *
 *     heard MIB
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { SLOTS = 40000, SMALL = 900, LARGE = 150000, LARGE_EVERY = 4096, GROW_EVERY = 64 };

static void *blocks[SLOTS];
static size_t sizes[SLOTS];

int main(int count, char **words)
{
    uint64_t wanted = (uint64_t)(count > 1 ? atoi(words[1]) : 1) << 20, asked = 0, live = 0;
    uint64_t random = 1;
    free(malloc(1));
    raise(SIGSTOP);
    for (uint64_t turn = 1; asked < wanted; turn++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        size_t slot = (size_t)(random >> 33) % SLOTS;
        size_t bytes = turn % LARGE_EVERY == 0 ? LARGE : 1 + (size_t)(random >> 20) % SMALL;
        live += bytes - sizes[slot];
        if (turn % GROW_EVERY == 0) {
            blocks[slot] = realloc(blocks[slot], bytes);
        } else {
            free(blocks[slot]);
            blocks[slot] = malloc(bytes);
        }
        sizes[slot] = bytes;
        asked += bytes;
    }
    fprintf(stderr, "asked %llu\nlive %llu\n", (unsigned long long)asked, (unsigned long long)live);
    return 0;
}
