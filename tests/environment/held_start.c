/*
 * held_start.c: the thread that starts the heap is held in the middle of it, while another makes
 * its first requests. They find no memory, after a while; once the start has gone on, they are
 * served.
 *
 * The library's constructor starts the heap. The start asks heap_configure() for the options, and
 * the linker puts ours before it.
 *
 * Seen to hang where whoever finds the heap being started waits for its end, and where each request
 * waits anew; seen to fail where who has waited starts the heap as well.
 */
#include "check.h"

#include <calmalloc/calmalloc.h>

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

enum { REQUESTS = 100 };

struct os_facts;
struct heap_settings;
void __real_heap_configure(const struct os_facts *facts, struct heap_settings *out);
void __wrap_heap_configure(const struct os_facts *facts, struct heap_settings *out);

static atomic_uint starts, refused;
static char foreign[64];

static void *request(void *none)
{
    (void)none;
    for (unsigned i = 0; i < REQUESTS; i++) {
        errno = 0;
        void *block = i % 2 == 0 ? calm_malloc(100) : calm_calloc(30, 100000);
        CHECK(block == NULL && errno == ENOMEM, "a block of a heap that is not ready");
        CHECK(calm_realloc(NULL, 10) == NULL, "a block of a heap that is not ready");
        CHECK(calm_aligned_alloc(64, 128) == NULL, "a block of a heap that is not ready");
        calm_free(NULL);
        calm_free(foreign);
        atomic_fetch_add(&refused, 1);
    }
    return NULL;
}

static void *request_later(void *none)
{
    (void)none;
    char *block = calm_malloc(100);
    CHECK(block != NULL, "no block once the heap was ready");
    for (size_t i = 0; i < 100; i++)
        block[i] = 1;
    calm_free(block);
    return NULL;
}

static void in_thread(void *(*body)(void *))
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, body, NULL) == 0, "no thread");
    pthread_join(thread, NULL);
}

/* Goes on only when the other thread has done what it wants. */
void __wrap_heap_configure(const struct os_facts *facts, struct heap_settings *out)
{
    if (atomic_fetch_add(&starts, 1) == 0) {
        check_time_limit(60);
        in_thread(request);
    }
    __real_heap_configure(facts, out);
}

int main(void)
{
    in_thread(request_later);
    request_later(NULL);
    CHECK(atomic_load(&refused) == REQUESTS, "the start was not held");
    CHECK(atomic_load(&starts) == 1, "the heap was started %u times", atomic_load(&starts));
    return 0;
}
