/*
 * fork_queue.c: threads fork one behind the other for longer than a lock that does not come back is
 * waited for. Each has its turn all the same: no two are between calmalloc's handlers at a time.
 *
 * Our own handlers are installed before calmalloc's, by the C library itself, so they run while a
 * thread has its turn.
 *
 * Seen to fail where whoever waited a second forks without its turn, and where the holder that it
 * gave up is not waited for again.
 */
#define _GNU_SOURCE

#include "check.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { THREADS = 24, TURN_MS = 100, STILL_MS = 400 };

static atomic_uint inside, most, longest_ms;
static _Thread_local double begun;

static void note_most(atomic_uint *most_yet, unsigned now)
{
    unsigned seen = atomic_load(most_yet);
    while (now > seen && !atomic_compare_exchange_weak(most_yet, &seen, now))
        continue;
}

static void before(void)
{
    begun = seconds_now();
    note_most(&most, atomic_fetch_add(&inside, 1) + 1);
    sleep_ms(TURN_MS);
}

static void in_parent(void)
{
    atomic_fetch_sub(&inside, 1);
    note_most(&longest_ms, (unsigned)((seconds_now() - begun) * 1000));
}

static void install(void)
{
    typedef void handler(void);
    void *library = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    int (*enroll)(handler *before, handler *in_parent, handler *in_child, void *whose);
    *(void **)&enroll = dlsym(library, "__register_atfork");
    CHECK(enroll != NULL && enroll(before, in_parent, NULL, NULL) == 0, "no handlers");
}

__attribute__((section(".preinit_array"), used)) static void (*const installs)(void) = install;

static void *fork_once(void *none)
{
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    check_child_succeeds(child, "a child in the queue");
    return none;
}

int main(void)
{
    check_is_calmalloc();
    check_time_limit(120);
    pthread_t threads[THREADS];
    double start = seconds_now();
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, fork_once, NULL) == 0, "no thread");
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    if (atomic_load(&longest_ms) > STILL_MS)
        check_skip("the machine stood still, and who waited was right to give up");
    CHECK(atomic_load(&most) == 1, "%u threads forked at the same time", atomic_load(&most));
    CHECK((seconds_now() - start) * 1000 > 2000, "the queue was too short");
    return 0;
}
