/*
 * keeper.c: blocks in the order in which they are due. Few are kept at a time, so a list is enough.
 */
#define _GNU_SOURCE

#include "keeper.h"

#include <pthread.h>
#include <sys/prctl.h>
#include <time.h>

static pthread_t thread;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t news;
static struct kept *first;
static bool is_over;
static calm_exec *of;

uint64_t keeper_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void wait_for_first(void)
{
    if (first == NULL) {
        pthread_cond_wait(&news, &lock);
        return;
    }
    struct timespec until = {.tv_sec = (time_t)(first->due_ns / 1000000000u),
                             .tv_nsec = (long)(first->due_ns % 1000000000u)};
    pthread_cond_timedwait(&news, &lock, &until);
}

static void *keep_all(void *unused)
{
    prctl(PR_SET_TIMERSLACK, 1L);
    pthread_mutex_lock(&lock);
    while (first != NULL || !is_over) {
        if (first == NULL || (!is_over && first->due_ns > keeper_now_ns())) {
            wait_for_first();
            continue;
        }
        struct kept *kept = first;
        first = kept->next;
        pthread_mutex_unlock(&lock);
        calm_exec_free(of, kept->block);
        kept->freed_ns = keeper_now_ns();
        pthread_mutex_lock(&lock);
    }
    pthread_mutex_unlock(&lock);
    return unused;
}

void keeper_start(calm_exec *exec)
{
    pthread_condattr_t attributes;
    of = exec;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&news, &attributes);
    pthread_create(&thread, NULL, keep_all, NULL);
}

void keeper_keep(struct kept *kept, uint64_t now_ns)
{
    pthread_mutex_lock(&lock);
    kept->due_ns = now_ns + kept->hold_ns;
    struct kept **at = &first;
    while (*at != NULL && (*at)->due_ns <= kept->due_ns)
        at = &(*at)->next;
    kept->next = *at;
    *at = kept;
    if (at == &first)
        pthread_cond_signal(&news);
    pthread_mutex_unlock(&lock);
}

void keeper_stop(void)
{
    pthread_mutex_lock(&lock);
    is_over = true;
    pthread_cond_signal(&news);
    pthread_mutex_unlock(&lock);
    pthread_join(thread, NULL);
}
