/*
 * soft_and_hard.c: a program that grows until it is refused, under the option limit_mb, again and
 * again, with blocks of all sizes and with one that grows: it gets nearly all that the limit says,
 * is never resident beyond it by more than the heap's own books, and goes on after each refusal.
 * Under soft_limit_mb what it frees above that goes back at once.
 *
 *   soft_and_hard LIMIT_MB [soft | threads]
 *
 * Threads that fill it, free all and end leave nearly all to who comes then.
 *
 * Seen to fail without a limit; with one of addresses, which a block that grows reaches at a half;
 * with the rule for what is taken again left on beyond the soft limit; with caches whose size does
 * not depend on the limit, and with cores' caches that are not emptied before a refusal.
 */
#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

enum { ROUNDS = 40, THREADS = 8, MIXED = 4 };

static size_t limit;

struct link {
    struct link *next;
};

/* Blocks of a size that depends on the round, touched, until one is refused. */
static size_t fill(unsigned long *seed, unsigned round, struct link **blocks)
{
    size_t total = 0, most = (size_t)16 << round % 17;
    for (;;) {
        size_t size = sizeof(struct link) + random_next(seed) % most;
        errno = 0;
        struct link *block = malloc(size);
        if (block == NULL)
            break;
        memset(block, 1, size);
        block->next = *blocks;
        *blocks = block;
        total += size;
    }
    CHECK(errno == ENOMEM, "a refusal with another error");
    return total;
}

static void empty(struct link **blocks, size_t keep_every)
{
    struct link *kept = NULL;
    for (size_t i = 0; *blocks != NULL; i++) {
        struct link *block = *blocks;
        *blocks = block->next;
        if (keep_every != 0 && i % keep_every == 0) {
            block->next = kept;
            kept = block;
        } else {
            free(block);
        }
    }
    *blocks = kept;
}

/* One block grows until it is refused. */
static size_t grow(void)
{
    char *block = NULL;
    size_t size = 0;
    for (;;) {
        char *grown = realloc(block, size + MIB);
        if (grown == NULL)
            break;
        block = grown;
        memset(block + size, 2, MIB);
        size += MIB;
    }
    for (size_t at = 0; at < size; at += 4096)
        CHECK(block[at] == 2, "a byte was lost");
    free(block);
    return size;
}

static void run_hard(size_t base)
{
    unsigned long seed = 7;
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct link *blocks = NULL;
        size_t total = fill(&seed, round, &blocks), resident = resident_bytes() - base;
        CHECK(resident < limit + limit / 32 + 4 * MIB, "%zu MiB are resident in round %u",
              resident / MIB, round);
        CHECK(total > limit / 2, "refused at %zu MiB in round %u", total / MIB, round);
        empty(&blocks, round % 17 < 13 ? 0 : 100); /* of small ones that would pin all pages */
        total = grow();
        CHECK(total > limit / 8 * 5, "a block that grows is refused at %zu MiB in round %u",
              total / MIB, round);
        empty(&blocks, 0);
    }
}

/* Blocks of up to 3 MiB, four times the limit in all. */
static void mix(unsigned long *seed, struct link **blocks)
{
    for (size_t total = 0; total < MIXED * limit;) {
        size_t size = sizeof(struct link) + random_next(seed) % (3 * MIB);
        struct link *block = malloc(size);
        CHECK(block != NULL, "a soft limit refuses nothing");
        memset(block, 1, size);
        block->next = *blocks;
        *blocks = block;
        total += size;
    }
}

/* What is freed above the limit is gone at once, though the same is taken again each time. */
static void run_soft(size_t base)
{
    for (unsigned round = 0; round < ROUNDS; round++) {
        char *block = malloc(3 * limit);
        CHECK(block != NULL, "a soft limit refuses nothing");
        memset(block, 1, 3 * limit);
        free(block);
        size_t resident = resident_bytes() - base;
        CHECK(resident < limit, "%zu MiB are resident in round %u", resident / MIB, round);
    }
    unsigned long seed = 11;
    for (unsigned round = 0; round < ROUNDS / 4; round++) {
        struct link *blocks = NULL;
        mix(&seed, &blocks);
        empty(&blocks, 0);
        size_t resident = resident_bytes() - base;
        CHECK(resident < limit + limit / 2, "%zu MiB are resident after %u mixed rounds",
              resident / MIB, round);
    }
}

static void *fill_and_empty(void *which)
{
    unsigned long seed = (unsigned long)(size_t)which;
    for (unsigned round = 0; round < ROUNDS / 4; round++) {
        struct link *blocks = NULL;
        fill(&seed, round, &blocks);
        empty(&blocks, 0);
    }
    return NULL;
}

static void run_threads(void)
{
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, fill_and_empty, (void *)(i + 1)) == 0, "no thread");
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    unsigned long seed = 5;
    struct link *blocks = NULL;
    for (unsigned round = 0; round < 12; round += 4) {
        size_t total = fill(&seed, round, &blocks);
        CHECK(total > limit / 2, "only %zu MiB are left in round %u", total / MIB, round);
        empty(&blocks, 0);
    }
}

int main(int count, char **words)
{
    check_is_calmalloc();
    check_time_limit(120);
    limit = (count > 1 ? strtoul(words[1], NULL, 10) : 64) * MIB;
    size_t base = resident_bytes();
    if (count > 2 && strcmp(words[2], "threads") == 0)
        run_threads();
    else if (count > 2)
        run_soft(base);
    else
        run_hard(base);
    check_heap();
    return 0;
}
