/*
 * program.c: takes the allocator's slow paths one after the other: a heap that grows and shrinks,
 * threads that come and go, forks, refusals, statistics, a profile. Passes by exiting 0.
 */
#define _GNU_SOURCE

#include "../environment/check.h"

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

enum { BLOCKS = 300, THREADS = 4, ROUNDS = 2 };

static size_t size_at(size_t i)
{
    static const size_t sizes[] = {8, 40, 100, 1000, 5000, 40000, 100000};
    return sizes[i % (sizeof sizes / sizeof sizes[0])] + i % 100;
}

static void *use_heap(void *argument)
{
    void **blocks = hidden(calloc(BLOCKS, sizeof *blocks));
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < BLOCKS; i++) {
            size_t size = size_at(i);
            blocks[i] = i % 3 == 0   ? calloc(1, size)
                        : i % 3 == 1 ? malloc(size)
                                     : memalign(64, size);
            CHECK(blocks[i] != NULL, "no block of %zu", size);
            block_sign(blocks[i], size);
        }
        for (size_t i = 0; i < BLOCKS; i += 2) {
            blocks[i] = realloc(blocks[i], 2 * size_at(i));
            CHECK(blocks[i] != NULL, "no longer block");
        }
        for (size_t i = 0; i < BLOCKS; i++) {
            CHECK(i % 2 == 0 || block_is_signed(blocks[i], size_at(i)), "block %zu is another's",
                  i);
            free(blocks[i]);
        }
    }
    free(blocks);
    return argument;
}

static void use_threads(void)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, use_heap, NULL) == 0, "no thread");
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void use_statistics(void)
{
    FILE *nowhere = fopen("/dev/null", "w");
    CHECK(nowhere != NULL && malloc_info(0, nowhere) == 0, "no malloc_info");
    fclose(nowhere);
    CHECK(mallinfo2().uordblks > 0, "nothing is in use");
    malloc_trim(0);
}

int main(void)
{
    check_is_calmalloc();
    check_time_limit(60);
    double begun = seconds_now();
    use_heap(NULL);
    use_threads();
    CHECK(malloc((size_t)hidden((void *)(SIZE_MAX / 4))) == NULL, "too much was granted");
    pid_t child = fork();
    if (child == 0) {
        use_heap(NULL);
        _exit(0);
    }
    check_child_succeeds(child, "the forked child");
    use_statistics();
    struct sigaction action;
    sigaction(SIGUSR2, NULL, &action);
    if (action.sa_handler != SIG_DFL)
        raise(SIGUSR2); /* writes a profile */
    check_heap();
    /* Who waits for a start that it does itself has lost five. */
    CHECK(seconds_now() - begun < 30, "it took %.1f s", seconds_now() - begun);
    return 0;
}
