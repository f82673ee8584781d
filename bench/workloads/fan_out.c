/*
 * fan_out SEED PRODUCERS FOLLOWERS BATCHES BYTES_MIN BYTES_MAX: each of PRODUCERS threads allocates
 * BATCHES batches of 120 blocks; FOLLOWERS threads of its own take them from its list and free
 * them.
 *
 * Measures few threads that allocate for very many that only free: memory that is freed on a thread
 * which never asks for any must still find its way back. At most 64 batches wait in a list. A
 * block's first eight bytes are a random stamp; the stamps of freed blocks must add up to those of
 * allocated ones. Locks and wake-ups are timed, equally for all. Does not measure a pair of equals
 * (see `handover`).
 */
#include "workload.h"

enum { BATCH = 120, LIST = 64 };

struct batch {
    uint64_t *blocks[BATCH];
};

/* Batches travel by value, so that the benchmark itself allocates nothing. */
static struct list {
    _Alignas(128) pthread_mutex_t lock;
    pthread_cond_t not_full;
    pthread_cond_t not_empty;
    unsigned first;
    unsigned count;
    bool is_closed;
    struct batch batches[LIST];
} lists[64];

static struct {
    _Alignas(128) uint64_t sum;
} sums[THREADS_MAX];
static uint64_t seed, batches;
static unsigned producers, followers;
static uint32_t bytes_min, bytes_span;

static void list_put(struct list *list, const struct batch *batch)
{
    pthread_mutex_lock(&list->lock);
    while (list->count == LIST)
        pthread_cond_wait(&list->not_full, &list->lock);
    list->batches[(list->first + list->count) % LIST] = *batch;
    list->count++;
    pthread_cond_signal(&list->not_empty);
    pthread_mutex_unlock(&list->lock);
}

static void list_close(struct list *list)
{
    pthread_mutex_lock(&list->lock);
    list->is_closed = true;
    pthread_cond_broadcast(&list->not_empty);
    pthread_mutex_unlock(&list->lock);
}

/* False when the list is empty and stays so. */
static bool list_take(struct list *list, struct batch *batch)
{
    pthread_mutex_lock(&list->lock);
    while (list->count == 0 && !list->is_closed)
        pthread_cond_wait(&list->not_empty, &list->lock);
    bool any = list->count > 0;
    if (any) {
        *batch = list->batches[list->first];
        list->first = (list->first + 1) % LIST;
        list->count--;
        pthread_cond_signal(&list->not_full);
    }
    pthread_mutex_unlock(&list->lock);
    return any;
}

static uint64_t produce(unsigned index)
{
    struct batch batch;
    uint64_t random = random_stream(seed, index), sum = 0;
    for (uint64_t i = 0; i < batches; i++) {
        for (unsigned j = 0; j < BATCH; j++) {
            batch.blocks[j] = allocate(bytes_min + random_below(&random, bytes_span), 0);
            *batch.blocks[j] = random;
            sum += random;
        }
        list_put(&lists[index], &batch);
    }
    list_close(&lists[index]);
    return sum;
}

static uint64_t consume(struct list *list)
{
    struct batch batch;
    uint64_t sum = 0;
    while (list_take(list, &batch))
        for (unsigned j = 0; j < BATCH; j++) {
            sum += *batch.blocks[j];
            free(batch.blocks[j]);
        }
    return sum;
}

static void work(unsigned index)
{
    sums[index].sum = index < producers ? produce(index) : consume(&lists[index % producers]);
}

int main(int argc, char **argv)
{
    seed = argument(argc, argv, 1, "seed");
    producers = (unsigned)argument(argc, argv, 2, "producers");
    followers = (unsigned)argument(argc, argv, 3, "followers");
    batches = argument(argc, argv, 4, "batches");
    bytes_min = (uint32_t)argument(argc, argv, 5, "smallest size");
    bytes_span = (uint32_t)argument(argc, argv, 6, "largest size") - bytes_min + 1;
    if (producers == 0 || producers > sizeof lists / sizeof *lists || followers == 0 ||
        bytes_min < sizeof(uint64_t))
        fail("1 to %zu producers, 1 follower or more, blocks of at least 8 bytes",
             sizeof lists / sizeof *lists);
    for (unsigned i = 0; i < producers; i++) {
        pthread_mutex_init(&lists[i].lock, NULL);
        pthread_cond_init(&lists[i].not_full, NULL);
        pthread_cond_init(&lists[i].not_empty, NULL);
    }
    run_threads(producers * (1 + followers), work);
    uint64_t allocated = 0, freed = 0;
    for (unsigned i = 0; i < producers * (1 + followers); i++)
        *(i < producers ? &allocated : &freed) += sums[i].sum;
    if (allocated != freed)
        fail("the stamps of freed blocks are not those of allocated ones");
    return result_print(freed);
}
