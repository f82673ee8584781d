/*
 * handover SEED MODE THREADS BATCHES BYTES_MIN BYTES_MAX: blocks cross threads in batches of 120
 * through lists with a lock. MODE 0 (xmalloc): half of the THREADS only allocate, the others only
 * free. MODE 1: every thread allocates a batch, gives it to the next thread, and frees one that it
 * was given. BATCHES are allocated by each allocating thread.
 *
 * Measures memory that always moves one way: caches fill where blocks are freed and run dry where
 * they are allocated. At most 64 batches wait in a list, so the benchmark's own queue stays small.
 * A block's first byte is its place in the batch; the freeing thread adds these up. Does not
 * measure single blocks in flight (see `remote`).
 */
#include "workload.h"

#include <sched.h>

enum { BATCH = 120, LIST = 64 };

struct batch {
    void *blocks[BATCH];
};

/* Batches travel by value, so that the benchmark itself allocates nothing. */
static struct list {
    _Alignas(128) pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned first;
    unsigned count;
    struct batch batches[LIST];
} lists[THREADS_MAX];

static struct {
    _Alignas(128) uint64_t check;
} sums[THREADS_MAX];
static uint64_t seed, batches;
static unsigned threads, mode;
static uint32_t bytes_min, bytes_span;

static bool list_put(struct list *list, const struct batch *batch, bool wait)
{
    pthread_mutex_lock(&list->lock);
    while (wait && list->count == LIST)
        pthread_cond_wait(&list->changed, &list->lock);
    bool fits = list->count < LIST;
    if (fits) {
        list->batches[(list->first + list->count) % LIST] = *batch;
        list->count++;
        pthread_cond_signal(&list->changed);
    }
    pthread_mutex_unlock(&list->lock);
    return fits;
}

static bool list_take(struct list *list, struct batch *batch, bool wait)
{
    pthread_mutex_lock(&list->lock);
    while (wait && list->count == 0)
        pthread_cond_wait(&list->changed, &list->lock);
    bool any = list->count > 0;
    if (any) {
        *batch = list->batches[list->first];
        list->first = (list->first + 1) % LIST;
        list->count--;
        pthread_cond_signal(&list->changed);
    }
    pthread_mutex_unlock(&list->lock);
    return any;
}

static void batch_allocate(struct batch *batch, uint64_t *random)
{
    for (unsigned i = 0; i < BATCH; i++)
        batch->blocks[i] = allocate(bytes_min + random_below(random, bytes_span), (unsigned char)i);
}

static uint64_t batch_free(const struct batch *batch)
{
    uint64_t check = 0;
    for (unsigned i = 0; i < BATCH; i++)
        check += release(batch->blocks[i]);
    return check;
}

/* Even threads allocate, odd ones free what their left neighbour made. */
static void one_way(unsigned index)
{
    struct batch batch;
    uint64_t random = random_stream(seed, index), check = 0;
    for (uint64_t i = 0; i < batches; i++) {
        if (index % 2 == 0) {
            batch_allocate(&batch, &random);
            list_put(&lists[index], &batch, true);
        } else {
            list_take(&lists[index - 1], &batch, true);
            check += batch_free(&batch);
        }
    }
    sums[index].check = check;
}

/* Nobody may wait here while it could free instead, or a ring of full lists would stand still. */
static void in_a_ring(unsigned index)
{
    struct batch mine, theirs;
    uint64_t random = random_stream(seed, index), check = 0, received = 0;
    struct list *inbox = &lists[index], *outbox = &lists[(index + 1) % threads];
    for (uint64_t i = 0; i < batches; i++) {
        batch_allocate(&mine, &random);
        while (!list_put(outbox, &mine, false)) {
            if (list_take(inbox, &theirs, false)) {
                check += batch_free(&theirs);
                received++;
            } else {
                sched_yield();
            }
        }
        if (list_take(inbox, &theirs, false)) {
            check += batch_free(&theirs);
            received++;
        }
    }
    for (; received < batches; received++) {
        list_take(inbox, &theirs, true);
        check += batch_free(&theirs);
    }
    sums[index].check = check;
}

int main(int argc, char **argv)
{
    seed = argument(argc, argv, 1, "seed");
    mode = (unsigned)argument(argc, argv, 2, "mode");
    threads = (unsigned)argument(argc, argv, 3, "threads");
    batches = argument(argc, argv, 4, "batches");
    bytes_min = (uint32_t)argument(argc, argv, 5, "smallest size");
    bytes_span = (uint32_t)argument(argc, argv, 6, "largest size") - bytes_min + 1;
    if (threads < 2 || threads > THREADS_MAX || (mode == 0 && threads % 2 != 0))
        fail("at least 2 threads, an even number for mode 0");
    for (unsigned i = 0; i < threads; i++) {
        pthread_mutex_init(&lists[i].lock, NULL);
        pthread_cond_init(&lists[i].changed, NULL);
    }
    run_threads(threads, mode == 0 ? one_way : in_a_ring);
    uint64_t check = 0, expected = (uint64_t)BATCH * (BATCH - 1) / 2 * batches *
                                   (mode == 0 ? threads / 2 : threads);
    for (unsigned i = 0; i < threads; i++)
        check += sums[i].check;
    if (check != expected)
        fail("the blocks freed are not the blocks allocated");
    return result_print(check);
}
