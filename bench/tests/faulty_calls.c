/*
 * faulty_calls: the C library's allocator with one fault, chosen at compile time, to see the
 * workloads of single calls and of several threads find it.
 *
 *   FAULT 0  none
 *   FAULT 1  hands out a live block twice, now and then, and reuses none
 *   FAULT 2  every 500th free takes 50 us longer
 *   FAULT 3  one lock around everything, taken in turn: whoever stops inside a call stops everyone
 *   FAULT 4  free does nothing
 *   FAULT 5  a cache line for each block of a line or less, so that none is shared
 *   FAULT 6  blocks follow each other closely, whoever asks
 *   FAULT 7  none, but nobody may trace anybody
 *   FAULT 8  has no memory for every 500th malloc
 *   FAULT 9  realloc forgets what was in the block
 */
#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

extern void *__libc_malloc(size_t bytes);
extern void __libc_free(void *block);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *block, size_t bytes);
extern void *__libc_memalign(size_t align, size_t bytes);

enum { LINE = 64, CALLS_BEFORE = 40, EVERY = 500, DELAY_US = 50 };

static unsigned mallocs, frees;
static unsigned tickets, turn;

static void spin_us(unsigned microseconds)
{
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do
        clock_gettime(CLOCK_MONOTONIC, &now);
    while ((now.tv_sec - start.tv_sec) * 1000000 + (now.tv_nsec - start.tv_nsec) / 1000 <
           microseconds);
}

/*
 * A lock that goes round, so that a busy machine cannot keep it from the thread that will be held.
 * Who waits sleeps: time without a core is not time without the lock.
 */
static void lock_in_turn(void)
{
    unsigned mine = __atomic_fetch_add(&tickets, 1, __ATOMIC_RELAXED), now;
    while ((now = __atomic_load_n(&turn, __ATOMIC_ACQUIRE)) != mine)
        syscall(SYS_futex, &turn, FUTEX_WAIT_PRIVATE, now, NULL, NULL, 0);
}

static void unlock_in_turn(void)
{
    __atomic_add_fetch(&turn, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &turn, FUTEX_WAKE_PRIVATE, 1 << 10, NULL, NULL, 0);
}

/* One early block serves two calls in a row, again and again, where it is large enough. */
static void *live_again(size_t bytes, unsigned call)
{
    static void *live;
    static size_t live_bytes;
    if (live != NULL && bytes <= live_bytes && call % EVERY < 2)
        return live;
    void *block = __libc_malloc(bytes);
    if (call > CALLS_BEFORE && (live == NULL || live_bytes < bytes)) {
        live = block;
        live_bytes = bytes;
    }
    return block;
}

static void *next_to_the_last(size_t bytes)
{
    static _Alignas(LINE) char room[1 << 20];
    static size_t used = 16; /* so that a run of blocks does not end where a line ends */
    size_t at = __atomic_fetch_add(&used, (bytes + 15) & ~(size_t)15, __ATOMIC_RELAXED);
    return at + bytes > sizeof room ? __libc_malloc(bytes) : room + at;
}

void *malloc(size_t bytes)
{
    unsigned call = __atomic_add_fetch(&mallocs, 1, __ATOMIC_RELAXED);
    if (FAULT == 1)
        return live_again(bytes, call);
    if (FAULT == 8 && call % EVERY == 0)
        return NULL;
    if (FAULT == 3) {
        lock_in_turn();
        spin_us(1);
        void *block = __libc_malloc(bytes);
        unlock_in_turn();
        return block;
    }
    if (FAULT == 5 && bytes <= LINE)
        return __libc_memalign(LINE, LINE);
    if (FAULT == 6)
        return next_to_the_last(bytes);
    return __libc_malloc(bytes);
}

void free(void *block)
{
    if (FAULT == 2 && __atomic_add_fetch(&frees, 1, __ATOMIC_RELAXED) % EVERY == 0)
        spin_us(DELAY_US);
    if (FAULT == 3) {
        lock_in_turn();
        spin_us(1);
        __libc_free(block);
        unlock_in_turn();
    }
    if (FAULT != 1 && FAULT != 3 && FAULT != 4 && FAULT != 6)
        __libc_free(block);
}

void *calloc(size_t count, size_t bytes)
{
    return __libc_calloc(count, bytes);
}

void *realloc(void *block, size_t bytes)
{
    if (FAULT == 9)
        return __libc_malloc(bytes);
    return __libc_realloc(block, bytes);
}

#if FAULT == 7
long ptrace(int request, ...)
{
    (void)request;
    errno = EPERM;
    return -1;
}
#endif
