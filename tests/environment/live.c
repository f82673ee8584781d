/*
 * live.c: see live.h.
 */
#include "live.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "check.h"

_Thread_local volatile bool live_is_inside;

static struct {
    atomic_bool is_over;
    unsigned count;
    size_t size_max;
    struct live lives[LIVE_WORKERS_MAX];
    pthread_t threads[LIVE_WORKERS_MAX];
} workers;

static void drop(struct live *live, size_t slot)
{
    void *block = live->blocks[slot];
    if (block == NULL)
        return;
    CHECK(block_is_signed(block, live->sizes[slot]), "a live block of %zu bytes was overwritten",
          live->sizes[slot]);
    live->blocks[slot] = NULL;
    live_is_inside = true;
    free(block);
    live_is_inside = false;
}

void live_step(struct live *live, size_t size_max)
{
    size_t slot = random_next(&live->seed) % LIVE_MAX;
    drop(live, slot);
    size_t size = 1 + random_next(&live->seed) % size_max;
    if (random_next(&live->seed) % 8 != 0)
        size = 1 + size % 500;
    live_is_inside = true;
    void *block = malloc(size);
    live_is_inside = false;
    CHECK(block != NULL, "no memory");
    block_sign(block, size);
    live->sizes[slot] = size;
    live->blocks[slot] = block;
}

void live_check(const struct live *live)
{
    for (size_t slot = 0; slot < LIVE_MAX; slot++)
        CHECK(live->blocks[slot] == NULL || block_is_signed(live->blocks[slot], live->sizes[slot]),
              "a live block of %zu bytes was overwritten", live->sizes[slot]);
}

void live_end(struct live *live)
{
    for (size_t slot = 0; slot < LIVE_MAX; slot++)
        drop(live, slot);
}

static void *worker(void *live)
{
    while (!atomic_load(&workers.is_over))
        live_step(live, workers.size_max);
    live_end(live);
    return NULL;
}

void live_workers_start(unsigned count, size_t size_max)
{
    CHECK(count <= LIVE_WORKERS_MAX, "too many workers");
    workers.count = count;
    workers.size_max = size_max;
    for (unsigned i = 0; i < count; i++) {
        workers.lives[i].seed = i + 1;
        CHECK(pthread_create(&workers.threads[i], NULL, worker, &workers.lives[i]) == 0,
              "no thread");
    }
}

void live_workers_end(void)
{
    atomic_store(&workers.is_over, true);
    for (unsigned i = 0; i < workers.count; i++)
        pthread_join(workers.threads[i], NULL);
}
