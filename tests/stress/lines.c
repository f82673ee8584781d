/*
 * lines.c: threads free each other's small blocks and allocate others; the cache lines that hold
 * live blocks of several threads are counted and bounded.
 *
 * Such a line makes its threads wait for each other's writes. Without homes (docs/design/cores.md)
 * a block goes to whoever frees it, and one line in twenty is shared. A thread's first block may
 * come from the first home, and lending is rare; so one line in a hundred is allowed.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "arguments.h"
#include "calmalloc/calmalloc.h"

enum { THREADS = 3, SLOTS = 2000, TRADED = 512, BYTES_MAX = 112, LINE = 64, SHARED_ONE_IN = 100 };

/* A block's address and, in the low bits that alignment leaves free, who allocated it. */
typedef uintptr_t tagged;

static _Atomic tagged traded[TRADED];
static tagged slots[THREADS][SLOTS];
static uint64_t seed, steps;
static pthread_barrier_t all_entered; /* a thread that comes later may get a home again */

static tagged make(unsigned maker, size_t bytes)
{
    void *block = calm_malloc(bytes);
    if (block == NULL)
        stress_fail("calm_malloc(%zu) returned NULL", bytes);
    return (tagged)block | (maker + 1);
}

static void unmake(tagged block)
{
    calm_free((void *)(block & ~(tagged)7));
}

static void *work(void *argument)
{
    unsigned maker = (unsigned)((tagged(*)[SLOTS])argument - slots);
    uint64_t random = seed * THREADS + maker + 1;
    calm_free(calm_malloc(1));
    pthread_barrier_wait(&all_entered);
    for (uint64_t step = 0; step < steps; step++) {
        tagged *slot = &slots[maker][stress_random(&random) % SLOTS];
        if (*slot == 0) {
            *slot = make(maker, 1 + stress_random(&random) % BYTES_MAX);
        } else if (step % 4 != 0) {
            *slot = atomic_exchange(&traded[stress_random(&random) % TRADED], *slot);
        } else {
            unmake(*slot);
            *slot = 0;
        }
    }
    return NULL;
}

static int by_address(const void *left, const void *right)
{
    tagged a = *(const tagged *)left, b = *(const tagged *)right;
    return (a > b) - (a < b);
}

/* Of the lines that live blocks begin in, those with more than one maker; all of them to `*lines`.
 */
static size_t count_shared(tagged *blocks, size_t count, size_t *lines)
{
    size_t shared = 0;
    qsort(blocks, count, sizeof *blocks, by_address);
    for (size_t i = 0; i < count;) {
        uintptr_t line = blocks[i] / LINE;
        unsigned makers = 0;
        for (; i < count && blocks[i] / LINE == line; i++)
            makers |= 1u << (blocks[i] & 7);
        ++*lines;
        shared += (makers & (makers - 1)) != 0;
    }
    return shared;
}

static void check(void)
{
    static tagged blocks[THREADS * SLOTS + TRADED];
    size_t count = 0, lines = 0;
    for (unsigned maker = 0; maker < THREADS; maker++)
        for (unsigned i = 0; i < SLOTS; i++)
            if (slots[maker][i] != 0)
                blocks[count++] = slots[maker][i];
    for (unsigned i = 0; i < TRADED; i++)
        if (atomic_load(&traded[i]) != 0)
            blocks[count++] = atomic_load(&traded[i]);
    size_t shared = count_shared(blocks, count, &lines);
    printf("%zu of %zu lines with live blocks are shared\n", shared, lines);
    if (shared * SHARED_ONE_IN > lines)
        stress_fail("%zu of %zu lines have blocks of several threads", shared, lines);
    for (size_t i = 0; i < count; i++)
        unmake(blocks[i]);
}

static void run(void)
{
    pthread_t threads[THREADS];
    pthread_barrier_init(&all_entered, NULL, THREADS);
    for (unsigned i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, slots[i]) != 0)
            stress_fail("pthread_create failed");
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    check();
    const char *verdict = calm_verify();
    if (verdict != NULL)
        stress_fail("calm_verify: %s", verdict);
}

int main(int argc, char **argv)
{
    struct arguments arguments = arguments_read(argc, argv, 1, 200000);
    if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
        exit((puts("one CPU: threads never run at the same time"), 0));
    steps = arguments.steps;
    seed = arguments.seed;
    arguments_repro(&arguments, seed);
    run();
    return 0;
}
