/*
 * stress.c: pools under random operations with an oracle, as a plain program, so that it can be
 * built with any sanitizer and with mistakes put into the pool's sources.
 *
 *     stress single|plain|threads [SEED]
 *
 * single: one thread, which frees in both ways; plain: no remote free is ever announced.
 * Every block carries its address and its size, written when it is handed out and checked before it
 * is freed. Exit 0: all was as it must be.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/pool.h"

enum {
    LIVE_MAX = 3000,
    STEPS = 54000,
    MAIL = 64,
    FREERS = 3,
    REMOTE_WANTED = 20000,
    CLASSES = 6,
    BYTES = 1 << 20
};

struct live {
    char *block;
    size_t bytes;
};

static const size_t sizes[CLASSES] = {16, 24, 100, 1000, 5000, 70000};
static calm_pool *pool;
static struct calm_pool_limits limits;
static void *given; /* memory that the pool lives in, or NULL */
static struct live live[LIVE_MAX];
static size_t live_count;
static bool is_plain;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "stress: %s (line %d)\n", #condition, __LINE__);                       \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static uint64_t next(uint64_t *state)
{
    uint64_t mixed = *state += 0x9E3779B97F4A7C15u;
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9u;
    return mixed ^ (mixed >> 27);
}

static void begin(uint64_t seed)
{
    uint32_t shares[CLASSES] = {20, 20, 20, 15, 10, 15};
    given = seed % 3 == 0 ? aligned_alloc(CALM_POOL_MEMORY_ALIGN, BYTES) : NULL;
    if (given != NULL)
        memset(given, 0xA5, BYTES); /* what was there before says nothing */
    struct calm_pool_config config = {.block_bytes = sizes,
                                      .percent = shares,
                                      .classes = CLASSES,
                                      .bytes = BYTES,
                                      .memory = given,
                                      .flags = seed % 2 ? CALM_POOL_SPILL : 0};
    CHECK(calm_pool_bound(&config, &limits) == 0);
    CHECK(calm_pool_create(&config, &pool) == 0);
}

static void mark(char *block, size_t bytes)
{
    memset(block, (int)((uintptr_t)block >> 4 & 0xFF), bytes);
    uintptr_t number = (uintptr_t)block;
    memcpy(block, &number, sizeof number);
}

static void check_mark(char *block, size_t bytes)
{
    uintptr_t told;
    memcpy(&told, block, sizeof told);
    CHECK(told == (uintptr_t)block);
    for (size_t i = sizeof told; i < bytes; i++)
        CHECK((unsigned char)block[i] == ((uintptr_t)block >> 4 & 0xFF));
}

static void take(uint64_t *random)
{
    size_t bytes = sizes[next(random) % CLASSES];
    bytes -= next(random) % 8;
    size_t align = (size_t)1 << next(random) % 5;
    bool is_aligned = next(random) % 4 == 0;
    char *block = is_aligned ? calm_pool_alloc_aligned(pool, bytes, align)
                             : calm_pool_alloc(pool, bytes);
    CHECK(!is_aligned || (uintptr_t)block % align == 0);
    if (block == NULL || live_count == LIVE_MAX) {
        CHECK(block == NULL || calm_pool_free(pool, block) == 0);
        return;
    }
    CHECK(calm_pool_owns(pool, block) && calm_pool_owns(pool, block + bytes - 1));
    CHECK(calm_pool_usable_size(pool, block) >= bytes);
    mark(block, bytes);
    live[live_count++] = (struct live){block, bytes};
}

static int free_any_way(uint64_t *random, char *block)
{
    return next(random) % 2 || is_plain ? calm_pool_free(pool, block)
                                        : calm_pool_free_remote(pool, block);
}

/* Half of the time what was handed out last. */
static void release(uint64_t *random)
{
    bool is_last = next(random) % 2;
    struct live *one = &live[is_last ? live_count - 1 : next(random) % live_count];
    char *block = one->block;
    check_mark(block, one->bytes);
    if (next(random) % 8 == 0) {
        CHECK(calm_pool_free(pool, block + 1) == CALM_EMISALIGNED);
        int error = free_any_way(random, block + 8);
        CHECK(error == CALM_EINTERIOR || error == CALM_EMISALIGNED);
    }
    CHECK(free_any_way(random, block) == 0);
    if (next(random) % 8 == 0) {
        CHECK(calm_pool_free(pool, block) == CALM_EDOUBLE);
        CHECK(free_any_way(random, block) == CALM_EDOUBLE);
    }
    *one = live[--live_count];
}

/* All is back: each class has all of its blocks, and can hand all of them out. */
static void end(void)
{
    for (size_t i = 0; i < 65 * 4096; i++)
        calm_pool_drain(pool);
    CHECK(pool_verify(pool) == NULL);
    for (size_t i = 0; i < CLASSES; i++) {
        CHECK(calm_pool_watch_free(calm_pool_watch(pool), i) == limits.blocks[i]);
        char *last = NULL;
        for (uint32_t left = limits.blocks[i]; left > 0; left--) {
            char *block = calm_pool_alloc(pool, sizes[i]);
            CHECK(block > last && calm_pool_usable_size(pool, block) == limits.stride_bytes[i]);
            memset(block, 0, sizes[i]);
            last = block;
        }
    }
    calm_pool_destroy(pool);
    free(given);
}

/* The word at hand is empty when one below it gets a block back: then it is not looked at again. */
static void leave_an_empty_word(void)
{
    char *blocks[2 * 64];
    for (size_t i = 0; i < 2 * 64; i++)
        blocks[i] = calm_pool_alloc(pool, sizes[0]);
    CHECK(calm_pool_free(pool, blocks[5]) == 0);
    CHECK(pool_verify(pool) == NULL);
    CHECK(calm_pool_alloc(pool, sizes[0]) == blocks[5]);
    char *next_one = calm_pool_alloc(pool, sizes[0]);
    CHECK(next_one > blocks[2 * 64 - 1] && calm_pool_free(pool, next_one) == 0);
    for (size_t i = 0; i < 2 * 64; i++)
        CHECK(calm_pool_free(pool, blocks[i]) == 0);
}

static void single(uint64_t seed)
{
    uint64_t random = seed;
    begin(seed);
    leave_an_empty_word();
    for (unsigned step = 0; step < STEPS; step++) {
        unsigned share = step / 6000 % 2 == 0 ? 60 : 40;
        if (live_count == 0 || next(&random) % 100 < share)
            take(&random);
        else
            release(&random);
        if (step % 2000 == 0)
            CHECK(pool_verify(pool) == NULL);
    }
    while (live_count > 0)
        release(&random);
    end();
}

static char *_Atomic mail[MAIL];
static atomic_bool is_done;
static atomic_uint freed;

static void *free_mail(void *argument)
{
    uint64_t random = (uintptr_t)argument;
    while (!atomic_load(&is_done)) {
        char *block = atomic_exchange_explicit(&mail[next(&random) % MAIL], NULL, ACQUIRE);
        if (block == NULL) {
            sched_yield();
            continue;
        }
        check_mark(block, 16);
        memset(block, 0, 16);
        CHECK(calm_pool_free_remote(pool, block) == 0);
        atomic_fetch_add_explicit(&freed, 1, RELAXED);
    }
    return NULL;
}

static void threads(uint64_t seed)
{
    pthread_t freers[FREERS];
    uint64_t random = seed;
    begin(seed);
    for (uintptr_t i = 0; i < FREERS; i++)
        CHECK(pthread_create(&freers[i], NULL, free_mail, (void *)(seed * FREERS + i)) == 0);
    while (atomic_load_explicit(&freed, RELAXED) < REMOTE_WANTED) {
        char *block = calm_pool_alloc(pool, sizes[next(&random) % 5]);
        if (block == NULL)
            continue;
        mark(block, 16);
        /* Release only: what comes back of a block comes back through the pool. */
        char *before = atomic_exchange_explicit(&mail[next(&random) % MAIL], block, RELEASE);
        CHECK(before == NULL || calm_pool_free(pool, before) == 0);
    }
    atomic_store(&is_done, true);
    for (unsigned i = 0; i < FREERS; i++)
        pthread_join(freers[i], NULL);
    for (unsigned i = 0; i < MAIL; i++)
        CHECK(calm_pool_free(pool, mail[i]) == 0);
    end();
}

int main(int argc, char **argv)
{
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    if (argc > 1 && strcmp(argv[1], "threads") == 0)
        threads(seed);
    else {
        is_plain = argc > 1 && strcmp(argv[1], "plain") == 0;
        single(seed);
    }
    printf("%s %llu: all blocks came back\n", argc > 1 ? argv[1] : "single",
           (unsigned long long)seed);
    return 0;
}
