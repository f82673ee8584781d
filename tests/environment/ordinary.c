/*
 * ordinary.c: an ordinary program: it allocates, works in a few threads, and leaves in good order.
 * What makes the test is what it is started with: other preloaded libraries, limits, settings of
 * the machine.
 *
 * usage: ordinary [traced]
 */
#define _GNU_SOURCE

#include "check.h"

#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static void *work(void *argument)
{
    unsigned long seed = (unsigned long)(size_t)argument;
    void *live[200] = {NULL};
    size_t sizes[200] = {0};
    for (int i = 0; i < 50000; i++) {
        size_t slot = random_next(&seed) % 200;
        CHECK(live[slot] == NULL || block_is_signed(live[slot], sizes[slot]),
              "a block was overwritten");
        free(live[slot]);
        sizes[slot] = 1 + random_next(&seed) % (i % 100 == 0 ? 300000 : 2000);
        live[slot] = malloc(sizes[slot]);
        CHECK(live[slot] != NULL, "no memory");
        block_sign(live[slot], sizes[slot]);
    }
    for (size_t slot = 0; slot < 200; slot++)
        free(live[slot]);
    return NULL;
}

int main(int argc, char **argv)
{
    check_time_limit(60);
    if (argc > 1 && strcmp(argv[1], "traced") == 0) {
        size_t (*calls)(void);
        *(void **)&calls = dlsym(RTLD_DEFAULT, "tracer_calls");
        void *block = hidden(malloc(100));
        CHECK(calls != NULL && calls() > 0, "the tracer sees no call");
        CHECK(malloc_usable_size(block) >= 100, "the tracer hands on to another heap");
        free(block);
    } else {
        check_is_calmalloc();
    }
    pthread_t threads[4];
    for (size_t t = 0; t < 4; t++)
        CHECK(pthread_create(&threads[t], NULL, work, (void *)(t + 1)) == 0, "no thread");
    for (size_t t = 0; t < 4; t++)
        pthread_join(threads[t], NULL);
    char *words = strdup("words");
    CHECK(words != NULL && strcmp(words, "words") == 0, "strdup fails");
    free(words);
    return 0;
}
