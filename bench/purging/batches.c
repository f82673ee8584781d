/*
 * batches.c: what it costs to give many ranges back: madvise for each, process_madvise for all, or
 * io_uring for all. The ranges are apart, as idle pages of slabs and dirty spans are.
 *
 * Prints one line for each shape: microseconds a range, the median of TURNS. Touching is not timed.
 *
 *     cc -O2 -pthread batches.c -luring -o batches && ./batches
 */
#define _GNU_SOURCE
#include <liburing.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { TURNS = 201, RANGES_MAX = 256, PAGE = 4096 };
enum way { BY_MADVISE, BY_PROCESS_MADVISE, BY_IO_URING, WAYS };

static char *ranges[RANGES_MAX];
static struct io_uring ring;
static int self;
static atomic_bool is_over;

static void stop(const char *what)
{
    perror(what);
    exit(1);
}

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void by_process_madvise(size_t count, size_t bytes)
{
    struct iovec vector[RANGES_MAX];
    for (size_t i = 0; i < count; i++)
        vector[i] = (struct iovec){ranges[i], bytes};
    if (syscall(SYS_process_madvise, self, vector, count, MADV_DONTNEED, 0) !=
        (long)(count * bytes))
        stop("process_madvise");
}

static void by_io_uring(size_t count, size_t bytes)
{
    struct io_uring_cqe *done;
    for (size_t i = 0; i < count; i++)
        io_uring_prep_madvise(io_uring_get_sqe(&ring), ranges[i], (unsigned)bytes, MADV_DONTNEED);
    if (io_uring_submit_and_wait(&ring, (unsigned)count) != (int)count)
        stop("io_uring_submit_and_wait");
    for (size_t i = 0; i < count; i++) {
        if (io_uring_wait_cqe(&ring, &done) != 0 || done->res != 0)
            stop("io_uring madvise");
        io_uring_cqe_seen(&ring, done);
    }
}

static void give_back(enum way way, size_t count, size_t bytes)
{
    if (way == BY_PROCESS_MADVISE)
        by_process_madvise(count, bytes);
    else if (way == BY_IO_URING)
        by_io_uring(count, bytes);
    else
        for (size_t i = 0; i < count; i++)
            if (madvise(ranges[i], bytes, MADV_DONTNEED) != 0)
                stop("madvise");
}

static int by_size(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* The median; and whether all pages are gone, since a call that does nothing is quick. */
static double measure(enum way way, size_t count, size_t bytes)
{
    double took[TURNS];
    for (size_t turn = 0; turn < TURNS; turn++) {
        for (size_t i = 0; i < count; i++)
            for (size_t at = 0; at < bytes; at += PAGE)
                ranges[i][at] = 1;
        double begun = now_us();
        give_back(way, count, bytes);
        took[turn] = now_us() - begun;
        unsigned char is_there;
        for (size_t i = 0; i < count; i++)
            if (mincore(ranges[i], PAGE, &is_there) != 0 || (is_there & 1) != 0)
                stop("a range is still there");
    }
    qsort(took, TURNS, sizeof took[0], by_size);
    return took[TURNS / 2] / (double)count;
}

/* Another thread makes each call tell its core. */
static void *run_beside(void *argument)
{
    while (!atomic_load_explicit(&is_over, memory_order_relaxed))
        continue;
    return argument;
}

static void table(const char *title)
{
    static const size_t sizes[] = {PAGE, 64 * 1024, 2048 * 1024}, counts[] = {1, 8, 32, 256};
    printf("%s\n%10s %7s %10s %16s %10s\n", title, "bytes", "ranges", "madvise", "process_madvise",
           "io_uring");
    for (size_t i = 0; i < 3; i++)
        for (size_t j = 0; j < 4; j++) {
            double us[WAYS];
            if (sizes[i] * counts[j] > (size_t)64 << 20)
                continue;
            for (int way = 0; way < WAYS; way++)
                us[way] = measure((enum way)way, counts[j], sizes[i]);
            printf("%10zu %7zu %10.2f %16.2f %10.2f\n", sizes[i], counts[j], us[0], us[1], us[2]);
        }
}

int main(void)
{
    size_t apart = (size_t)4 << 20;
    char *start = mmap(NULL, apart * RANGES_MAX, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED || madvise(start, apart * RANGES_MAX, MADV_NOHUGEPAGE) != 0)
        stop("mmap");
    for (size_t i = 0; i < RANGES_MAX; i++)
        ranges[i] = start + i * apart;
    self = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (self < 0 || io_uring_queue_init(RANGES_MAX, &ring, 0) != 0)
        stop("pidfd_open or io_uring_queue_init");
    double begun = now_us();
    struct io_uring other;
    if (io_uring_queue_init(RANGES_MAX, &other, 0) != 0)
        stop("io_uring_queue_init");
    printf("a ring: %.0f us to make\n", now_us() - begun);
    table("one thread, microseconds a range");
    pthread_t thread;
    if (pthread_create(&thread, NULL, run_beside, NULL) != 0)
        stop("pthread_create");
    table("another thread runs beside");
    atomic_store(&is_over, true);
    pthread_join(thread, NULL);
    return 0;
}
