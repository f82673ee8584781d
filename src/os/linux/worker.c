/*
 * worker.c: threads of the C library, and the scheduler's masks.
 */
#define _GNU_SOURCE

#include "os/worker.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "base/bits.h"
#include "os/linux/syscall.h"

enum { MASK_WORDS = 64 }; /* 4096 CPUs */

int os_worker_start(void *(*body)(void *), void *argument)
{
    pthread_t thread;
    return -pthread_create(&thread, NULL, body, argument);
}

uint64_t os_worker_self(void)
{
    return (uint64_t)pthread_self();
}

void os_worker_leave(void)
{
    pthread_detach(pthread_self());
}

void os_worker_join(uint64_t worker)
{
    pthread_join((pthread_t)worker, NULL);
}

/* What a thread has left to do when it ends. */
static _Thread_local struct last_words {
    void (*function)(void *);
    void *argument;
} last_words;

static pthread_key_t at_end; /* its value: the thread's last_words, or NULL */
static int at_end_error;

static void speak(void *value)
{
    const struct last_words *words = (const struct last_words *)value;
    words->function(words->argument);
}

static void create_key(void)
{
    at_end_error = pthread_key_create(&at_end, speak);
}

int os_worker_at_end(void (*when_ended)(void *), void *argument)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, create_key);
    if (at_end_error != 0)
        return -at_end_error;
    last_words.function = when_ended;
    last_words.argument = argument;
    return -pthread_setspecific(at_end, when_ended == NULL ? NULL : &last_words);
}

/* The calling thread's CPUs; how many words of the mask are in use. */
static size_t read_mask(uint64_t *mask)
{
    long bytes = system_call(SYS_sched_getaffinity, 0, MASK_WORDS * 8, (long)mask, 0, 0, 0);
    return bytes > 0 ? (size_t)bytes / 8 : 0;
}

int os_worker_pin(uint32_t cpu)
{
    uint64_t mask[MASK_WORDS] = {0};
    if (cpu >= MASK_WORDS * 64)
        return -EINVAL;
    mask[cpu / 64] = (uint64_t)1 << cpu % 64;
    return (int)system_call(SYS_sched_setaffinity, 0, sizeof mask, (long)mask, 0, 0, 0);
}

bool os_worker_is_pinned(uint32_t cpu)
{
    uint32_t cpus[2];
    return os_worker_cpus(cpus, 2) == 1 && cpus[0] == cpu;
}

size_t os_worker_cpus(uint32_t *cpus, size_t most)
{
    uint64_t mask[MASK_WORDS] = {0};
    size_t count = 0, words = read_mask(mask);
    for (size_t word = 0; word < words; word++)
        for (uint64_t left = mask[word]; left != 0 && count < most; left &= left - 1)
            cpus[count++] = (uint32_t)(word * 64 + bit_lowest(left));
    return count;
}

uint64_t os_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}
