/*
 * exit_key.c: the C library allocates while the heap asks for its exit hook, as
 * pthread_setspecific() does for a key above 31, or where a program interposes it. Meanwhile other
 * threads make all threads work on their CPUs' caches. No cache may then have two owners, and a
 * fork's child must get past the fork. Nothing that a program interposes runs with signals blocked:
 * a thread that it starts would keep the mask.
 *
 * Arguments: "interposed", or "above" for a key above 31.
 *
 * Seen to fail, both, with a thread that gives up its cache while the exit hook is armed, and with
 * an emptied cache's pages that go back through `madvise`.
 */
#define _GNU_SOURCE

#include "check.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 14, ROUNDS = 4, BLOCKS = 200, CHILD_SECONDS = 20 };

static bool is_interposed;
static pthread_barrier_t barrier;

static void check_mask(void)
{
    uint64_t mask = 0;
    CHECK(syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &mask, sizeof mask) == 0, "no mask");
    CHECK(mask == 0, "signals %#llx are blocked", (unsigned long long)mask);
}

/* In the place of the C library's. */
int pthread_setspecific(pthread_key_t key, const void *value)
{
    static int (*real)(pthread_key_t, const void *);
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "pthread_setspecific");
    check_mask();
    if (is_interposed) {
        nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL);
        free(hidden(malloc(24)));
        free(hidden(malloc(700)));
    }
    return real(key, value);
}

/* In the place of the C library's. */
int madvise(void *start, size_t size, int advice)
{
    check_mask();
    return (int)syscall(SYS_madvise, start, size, advice);
}

static void *work(void *argument)
{
    unsigned char *blocks[BLOCKS], mine = (unsigned char)(uintptr_t)argument;
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(16 + i);
        CHECK(blocks[i] != NULL, "no memory");
        memset(blocks[i], mine, 16 + i);
    }
    pthread_barrier_wait(&barrier);
    for (size_t i = 0; i < BLOCKS; i++) {
        for (size_t j = 0; j < 16 + i; j++)
            CHECK(blocks[i][j] == mine, "block %zu of thread %d has another owner, too", i, mine);
        free(blocks[i]);
    }
    pthread_barrier_wait(&barrier);
    return NULL;
}

static void run_threads(void)
{
    pthread_t threads[THREADS];
    CHECK(pthread_barrier_init(&barrier, NULL, THREADS) == 0, "no barrier");
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)(i + 1)) == 0, "no thread");
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0, "no join");
    pthread_barrier_destroy(&barrier);
}

static void run_child(void)
{
    int status;
    pid_t child = fork();
    CHECK(child >= 0, "no child");
    if (child == 0) {
        for (size_t i = 0; i < 1000; i++)
            free(hidden(malloc(i)));
        _exit(0);
    }
    for (unsigned tenths = 0; waitpid(child, &status, WNOHANG) == 0; tenths++) {
        if (tenths == CHILD_SECONDS * 10)
            kill(child, SIGKILL);
        nanosleep(&(struct timespec){.tv_nsec = 100 * 1000 * 1000}, NULL);
    }
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with status %#x", status);
}

int main(int count, char **arguments)
{
    check_is_calmalloc();
    is_interposed = count > 1 && strcmp(arguments[1], "interposed") == 0;
    for (unsigned round = 0; round < ROUNDS; round++)
        run_threads();
    run_child();
    check_heap();
    return 0;
}
