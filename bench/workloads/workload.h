/*
 * workload.h: what every workload shares: seed, random numbers, clocks, threads behind a barrier,
 * memory readings and the one line of JSON that the runner reads.
 *
 * A workload is called as `program SEED NUMBER...` and exits 0 only if its own checks hold. `check`
 * depends on the seed and the arguments alone, never on addresses or on timing, so it must be the
 * same under every allocator. Nothing here allocates between start_clock() and stop_clock().
 */
#ifndef CALM_BENCH_WORKLOAD_H
#define CALM_BENCH_WORKLOAD_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { THREADS_MAX = 512 };

struct reading {
    double wall;
    double cpu;
};

/* Seconds of wall time, and of CPU time of the whole process: helper threads of an allocator count.
 */
static inline struct reading read_clocks(void)
{
    struct timespec wall, cpu;
    clock_gettime(CLOCK_MONOTONIC, &wall);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    return (struct reading){(double)wall.tv_sec + (double)wall.tv_nsec * 1e-9,
                            (double)cpu.tv_sec + (double)cpu.tv_nsec * 1e-9};
}

static struct reading clock_start, clock_total;

static inline void start_clock(void)
{
    clock_start = read_clocks();
}

/* May be called again after another start_clock(): the parts add up, and what lies between them is
 * not counted. */
static inline void stop_clock(void)
{
    struct reading now = read_clocks();
    clock_total.wall += now.wall - clock_start.wall;
    clock_total.cpu += now.cpu - clock_start.cpu;
}

/* xorshift64 (13, 7, 17). The state is never zero. */
static inline uint64_t next_random(uint64_t *state)
{
    uint64_t x = *state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return *state = x;
}

/* A number below `bound`, from the upper half of the next random word; bound < 2^32. */
static inline uint32_t random_below(uint64_t *state, uint32_t bound)
{
    return (uint32_t)(((next_random(state) >> 32) * bound) >> 32);
}

/* The state of stream `index` under `seed`: spread first, so that seeds 1 and 2 do not start alike.
 */
static inline uint64_t random_stream(uint64_t seed, uint64_t index)
{
    uint64_t z = seed * 0x9e3779b97f4a7c15u + (index + 1) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) | 1;
}

static inline void fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

/* Whether the last byte is touched as well: `--touch last`. */
#ifndef TOUCH_LAST
#define TOUCH_LAST 0
#endif

/* Allocates and touches the first byte: an allocation nobody writes to costs no page and proves
 * little. */
static inline void *allocate(size_t bytes, unsigned char tag)
{
    unsigned char *block = malloc(bytes);
    if (block == NULL)
        fail("malloc(%zu) returned NULL", bytes);
    *(volatile unsigned char *)block = tag;
    if (TOUCH_LAST && bytes > 1)
        *(volatile unsigned char *)(block + bytes - 1) = tag;
    return block;
}

/* Frees, and returns the first byte, for the caller's check: two live blocks that overlap would
 * show here. */
static inline unsigned char release(void *block)
{
    unsigned char tag = *(volatile unsigned char *)block;
    free(block);
    return tag;
}

/* Argument `index` (1 is the seed) as a number. Too few arguments or no number: one sentence,
 * exit 1. */
static inline uint64_t argument(int argc, char **argv, int index, const char *name)
{
    char *end = NULL;
    if (index >= argc)
        fail("%s: argument %d (%s) is missing", argv[0], index, name);
    uint64_t value = strtoull(argv[index], &end, 10);
    if (end == argv[index] || *end != '\0')
        fail("%s: argument %d (%s) is not a number: %s", argv[0], index, name, argv[index]);
    return value;
}

/* --- threads --- */

static pthread_barrier_t threads_ready, threads_done;

/*
 * Each thread reads the clocks itself, right behind the barrier and at its end: the main thread may
 * be woken late, on a busy machine only when all the work is done.
 */
static struct reading thread_started[THREADS_MAX], thread_ended[THREADS_MAX];

/* Counts from when the first of `count` threads started until the last one ended. */
static inline void count_threads(unsigned count)
{
    struct reading first = thread_started[0], last = thread_ended[0];
    for (unsigned i = 1; i < count; i++) {
        if (thread_started[i].wall < first.wall)
            first = thread_started[i];
        if (thread_ended[i].wall > last.wall)
            last = thread_ended[i];
    }
    clock_total.wall += last.wall - first.wall;
    clock_total.cpu += last.cpu - first.cpu;
}

struct thread_start {
    void (*body)(unsigned index);
    unsigned index;
};

static inline void *thread_entry(void *argument_)
{
    struct thread_start *start = argument_;
    pthread_barrier_wait(&threads_ready);
    thread_started[start->index] = read_clocks();
    start->body(start->index);
    thread_ended[start->index] = read_clocks();
    pthread_barrier_wait(&threads_done);
    return NULL;
}

/*
 * Runs body(0) .. body(count - 1), each on a thread of its own, and times from when they leave the
 * barrier until the last one is through; nobody ends before, so that no thread's end is timed. One
 * "thread" runs on the main thread and creates none: a process that never had a second thread is
 * what many programs are, and some allocators are faster there.
 */
static inline void run_threads(unsigned count, void (*body)(unsigned index))
{
    static pthread_t threads[THREADS_MAX];
    static struct thread_start starts[THREADS_MAX];
    if (count == 0 || count > THREADS_MAX)
        fail("between 1 and %d threads, not %u", THREADS_MAX, count);
    if (count == 1) {
        start_clock();
        body(0);
        stop_clock();
        return;
    }
    pthread_barrier_init(&threads_ready, NULL, count);
    pthread_barrier_init(&threads_done, NULL, count);
    for (unsigned i = 0; i < count; i++) {
        starts[i] = (struct thread_start){body, i};
        if (pthread_create(&threads[i], NULL, thread_entry, &starts[i]) != 0)
            fail("thread %u could not be created", i);
    }
    for (unsigned i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    count_threads(count);
}

/* --- memory --- */

struct memory {
    long resident_kib;
    long lazy_kib;
    long huge_kib;
    long anonymous_kib; /* without pages of files, which come and go with the kernel's cache */
};

static inline long field_of(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    return at == NULL ? -1 : strtol(at + strlen(name), NULL, 10);
}

/* The kernel's exact count (the one in `status` may lag by a few pages a thread). Makes no malloc
 * call. */
static inline struct memory read_memory(void)
{
    static char text[8192];
    size_t filled = 0;
    ssize_t got;
    int file = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
    if (file < 0)
        fail("/proc/self/smaps_rollup cannot be read");
    while (filled < sizeof text - 1 &&
           (got = read(file, text + filled, sizeof text - 1 - filled)) > 0)
        filled += (size_t)got;
    text[filled] = '\0';
    close(file);
    return (struct memory){field_of(text, "\nRss:"), field_of(text, "\nLazyFree:"),
                           field_of(text, "\nAnonHugePages:"), field_of(text, "\nAnonymous:")};
}

/* Ends a run that has more than `mib` MiB resident, to spare the machine. Reads the count that is
 * cheap, and may lag by a few pages. */
static inline void fail_above(uint64_t mib)
{
    static int file = -1;
    char text[128];
    if (file < 0)
        file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t got = pread(file, text, sizeof text - 1, 0);
    text[got > 0 ? got : 0] = '\0';
    const char *resident = strchr(text, ' ');
    if (resident == NULL)
        fail("/proc/self/statm cannot be read");
    uint64_t pages = strtoull(resident, NULL, 10);
    if (pages * (uint64_t)sysconf(_SC_PAGESIZE) >> 20 > mib)
        fail("more than %llu MiB are resident", (unsigned long long)mib);
}

static inline void sleep_until(double wall)
{
    for (double left = wall - read_clocks().wall; left > 0; left = wall - read_clocks().wall) {
        struct timespec pause = {(time_t)left, (long)((left - (double)(time_t)left) * 1e9)};
        nanosleep(&pause, NULL);
    }
}

/* --- the result
 * ---------------------------------------------------------------------------------------------- */

static char result_extra[64 * 1024];
static size_t result_extra_length;

static inline void result_text(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    result_extra_length += (size_t)vsnprintf(result_extra + result_extra_length,
                                             sizeof result_extra - result_extra_length, format,
                                             args);
    va_end(args);
    if (result_extra_length >= sizeof result_extra)
        fail("too many numbers in one result");
}

/* Adds `"name": value` to the result. */
static inline void result_number(const char *name, double value)
{
    result_text(", \"%s\": %.6g", name, value);
}

/*
 * Adds `"series_name": [[x, y], ...]` to the result: a curve for the report to plot. Names in use:
 * malloc_ns and free_ns by percentile (0 to 100), window_ns by window, resident_kib by seconds.
 */
static inline void result_series(const char *name, const double (*points)[2], size_t count)
{
    result_text(", \"series_%s\": [", name);
    for (size_t i = 0; i < count; i++)
        result_text("%s[%.6g, %.6g]", i == 0 ? "" : ", ", points[i][0], points[i][1]);
    result_text("]");
}

/* Adds `resident_<when>_kib` and its companions. Call after all samples are taken: printing may
 * allocate. */
static inline void result_memory(const char *when, struct memory memory)
{
    char name[96];
    snprintf(name, sizeof name, "resident_%s_kib", when);
    result_number(name, (double)memory.resident_kib);
    snprintf(name, sizeof name, "lazy_%s_kib", when);
    result_number(name, (double)memory.lazy_kib);
    snprintf(name, sizeof name, "huge_%s_kib", when);
    result_number(name, (double)memory.huge_kib);
}

/* Prints the line. `malloc_from` says which file malloc came from: the proof that the preloaded
 * library was used. */
static inline int result_print(uint64_t check)
{
    Dl_info where;
    if (dladdr(dlsym(RTLD_DEFAULT, "malloc"), &where) == 0)
        where.dli_fname = "?";
    printf("{\"seconds\": %.9f, \"cpu_seconds\": %.9f, \"check\": \"%016llx\", \"malloc_from\": "
           "\"%s\"%s}\n",
           clock_total.wall, clock_total.cpu, (unsigned long long)check, where.dli_fname,
           result_extra);
    return 0;
}

#endif
