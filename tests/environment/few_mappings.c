/*
 * few_mappings.c: however the heap is used, the process stays under 200 mappings, beside those of
 * large blocks that grew: small and large blocks from many threads, growth by realloc over tens of
 * MiB (which the kernel may serve by moving pages), huge alignments, trims.
 *
 * With the argument `moves`, 12,000 blocks of 5 MiB are live and all grow: each could be moved by
 * page tables, which costs mappings as long as the block lives, and only some of them may. Where
 * the system's huge pages are "always" only some may have them, which costs mappings, too.
 */
#define _GNU_SOURCE

#include "check.h"

#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORKERS = 8, LIVE = 60, SECONDS = 4, MAPPINGS_MAX = 200, MAPPINGS_OF_MOVED = 20 };

enum { GROWN = 2, MOVED = 12000, MOVED_MAX = 1024, HUGE_MAX = 8192 };

enum { A_MOVED = 2, A_HUGE = 2, A_MOVED_AND_HUGE = 10 }; /* mappings of a block, at most */

static atomic_bool is_over;

static size_t some_size(unsigned long *seed)
{
    size_t random = random_next(seed);
    switch (random % 8) {
    case 0: return 32769 + random / 8 % MIB;
    case 1: return MIB + random / 8 % (8 * MIB);
    case 2: return random / 8 % 200 == 0 ? 32 * MIB + random / 1600 % (20 * MIB) : 40000;
    default: return 1 + random / 8 % 5000;
    }
}

static void *grow(void *block, unsigned long *seed)
{
    size_t size = 16;
    for (size_t to = 4096; to < 70 * MIB && random_next(seed) % 20 != 0; to += to / 2) {
        char *more = realloc(block, to);
        CHECK(more != NULL, "no memory");
        more[to - 1] = 1;
        block = more;
        size = to;
    }
    return random_next(seed) % 2 == 0 ? realloc(block, size / 3 + 1) : block;
}

static void *worker(void *argument)
{
    unsigned long seed = (unsigned long)(size_t)argument * 977;
    void *live[LIVE] = {NULL};
    while (!atomic_load(&is_over)) {
        size_t slot = random_next(&seed) % LIVE;
        free(live[slot]);
        size_t size = some_size(&seed);
        live[slot] = seed % 50 == 0 ? aligned_alloc((size_t)4096 << seed / 50 % 12, size)
                                    : malloc(size);
        CHECK(live[slot] != NULL, "no memory");
        block_sign(live[slot], size);
        if (slot < GROWN)
            live[slot] = grow(live[slot], &seed);
        if (random_next(&seed) % 5000 == 0)
            malloc_trim(0);
    }
    for (size_t slot = 0; slot < LIVE; slot++)
        free(live[slot]);
    return NULL;
}

static void check_count(size_t count, size_t most)
{
    printf("%zu mappings\n", count);
    CHECK(count < most, "the process has %zu mappings", count);
}

static size_t mappings_of_moved(void)
{
    char setting[64] = "";
    FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
    bool is_always = file != NULL && fgets(setting, sizeof setting, file) != NULL &&
                     strstr(setting, "[always]") != NULL;
    if (file != NULL)
        fclose(file);
    return is_always ? A_MOVED_AND_HUGE * MOVED_MAX + A_HUGE * HUGE_MAX : A_MOVED * MOVED_MAX;
}

static void run_moves(void)
{
    static char *blocks[MOVED];
    static void *fences[MOVED];
    const size_t before = 5 * MIB, after = 7 * MIB;
    for (size_t i = 0; i < MOVED; i++) {
        blocks[i] = malloc(before);
        fences[i] = malloc(MIB); /* so that none grows in place */
        CHECK(blocks[i] != NULL && fences[i] != NULL, "no memory");
        blocks[i][before - 1] = (char)i;
    }
    for (size_t i = 0; i < MOVED; i++) {
        CHECK((blocks[i] = realloc(blocks[i], after)) != NULL, "no memory");
        blocks[i][after - 1] = (char)i;
    }
    check_count(mapping_count(), MAPPINGS_MAX + mappings_of_moved());
    for (size_t i = 0; i < MOVED; i++) {
        CHECK(blocks[i][before - 1] == (char)i, "a block lost its contents");
        CHECK(blocks[i][after - 1] == (char)i, "a block lost its end");
        free(blocks[i]);
        free(fences[i]);
    }
    malloc_trim(0);
    check_count(mapping_count(), MAPPINGS_MAX);
}

static void run_load(void)
{
    pthread_t workers[WORKERS];
    for (size_t w = 0; w < WORKERS; w++)
        CHECK(pthread_create(&workers[w], NULL, worker, (void *)(w + 1)) == 0, "no thread");
    size_t most = 0;
    double end = seconds_now() + (double)SECONDS;
    while (seconds_now() < end) {
        size_t count = mapping_count();
        most = count > most ? count : most;
        sleep_ms(5);
    }
    atomic_store(&is_over, true);
    for (int w = 0; w < WORKERS; w++)
        pthread_join(workers[w], NULL);
    check_count(most, MAPPINGS_MAX + WORKERS * GROWN * MAPPINGS_OF_MOVED);
}

int main(int argc, char **argv)
{
    check_is_calmalloc();
    check_time_limit(90);
    if (argc > 1 && strcmp(argv[1], "moves") == 0)
        run_moves();
    else
        run_load();
    return 0;
}
