/*
 * measure.c: what calls of a pool's operations take on this machine, driven through its states on
 * purpose; `calm pool measure` starts it and shows what it prints.
 *
 *     calm_pool_measure CPU CALLS SIZE:BLOCKS...
 *
 * A random walk: blocks are allocated, of a class that is then exhausted too, freed by the owner
 * and remotely, and taken back. So the next call meets words that are empty, levels that point far
 * away, blocks that others freed, memory that was never begun, and no block at all. Each call is
 * timed by the processor's counter. In a second walk the pool's bookkeeping and the operations'
 * code are flushed from all caches before each call. `nothing` is two readings of the counter with
 * nothing between: what the machine does by itself.
 *
 * Prints one JSON object. Exit codes: 0, 1: what could not be, in a sentence, 2: wrong usage.
 */
#define _GNU_SOURCE

#include <calmalloc/pool.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { LINE_BYTES = 64, CODE_BYTES = 4096, CALIBRATE_NS = 50000000, PRIORITY = 50 };
enum { ALLOC, ALLOC_ALIGNED, FREE, FREE_REMOTE, DRAIN, NOTHING, KINDS };
enum { PLANS_MAX = CALM_POOL_CLASSES_MAX, SHARES = 5 };

static const char *const names[KINDS] = {"alloc",       "alloc_aligned", "free",
                                         "free_remote", "drain",         "nothing"};

/* --- the machine --- */

#if defined(__x86_64__)
static uint64_t counter(void)
{
    uint32_t low, high;
    __asm__ volatile("lfence\n\trdtscp\n\tlfence" : "=a"(low), "=d"(high) : : "rcx", "memory");
    return (uint64_t)high << 32 | low;
}

static void flush_line(const char *line)
{
    __asm__ volatile("clflush %0" : : "m"(*line) : "memory");
}

static void settle(void)
{
    __asm__ volatile("mfence" : : : "memory");
}
#else
static uint64_t counter(void)
{
    uint64_t ticks;
    __asm__ volatile("isb\n\tmrs %0, cntvct_el0\n\tisb" : "=r"(ticks) : : "memory");
    return ticks;
}

static void flush_line(const char *line)
{
    __asm__ volatile("dc civac, %0" : : "r"(line) : "memory");
}

static void settle(void)
{
    __asm__ volatile("dsb sy\n\tisb" : : : "memory");
}
#endif

static uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static double ns_a_tick(void)
{
    uint64_t from_ns = clock_ns(), from = counter(), until_ns;
    while ((until_ns = clock_ns()) < from_ns + CALIBRATE_NS)
        continue;
    return (double)(until_ns - from_ns) / (double)(counter() - from);
}

static void flush(const void *start, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += LINE_BYTES)
        flush_line((const char *)start + at);
}

/* From the first to the last of the operations, and a page behind it. */
static void flush_code(void)
{
    const uintptr_t entries[] = {(uintptr_t)calm_pool_alloc, (uintptr_t)calm_pool_alloc_aligned,
                                 (uintptr_t)calm_pool_free, (uintptr_t)calm_pool_free_remote,
                                 (uintptr_t)calm_pool_drain};
    uintptr_t first = entries[0], last = entries[0];
    for (size_t i = 1; i < sizeof entries / sizeof entries[0]; i++) {
        first = entries[i] < first ? entries[i] : first;
        last = entries[i] > last ? entries[i] : last;
    }
    flush((const void *)first, last - first + CODE_BYTES / 2);
}

/* --- the walk --- */

static uint64_t random_state = 1;

static uint32_t below(uint32_t limit)
{
    random_state = random_state * 6364136223846793005 + 1442695040888963407;
    return (uint32_t)((random_state >> 33) * limit >> 31);
}

struct walk {
    struct calm_pool_config config;
    struct calm_pool_limits limits;
    calm_pool *pool;
    void **held; /* blocks, of any class */
    size_t count, capacity;
    uint32_t *ticks[KINDS]; /* of each call */
    size_t calls[KINDS];
    size_t calls_max;
    bool is_cold;
};

static void note(struct walk *walk, int kind, uint64_t from, uint64_t until)
{
    uint64_t ticks = until - from;
    if (walk->calls[kind] < walk->calls_max)
        walk->ticks[kind][walk->calls[kind]++] = ticks < UINT32_MAX ? (uint32_t)ticks : UINT32_MAX;
}

static void before(const struct walk *walk)
{
    if (!walk->is_cold)
        return;
    flush(walk->pool, walk->limits.meta_bytes);
    flush_code();
    settle();
}

static void do_alloc(struct walk *walk, uint32_t class, bool is_aligned)
{
    size_t bytes = walk->config.block_bytes[class];
    before(walk);
    uint64_t from = counter();
    void *block = is_aligned ? calm_pool_alloc_aligned(walk->pool, bytes, 8)
                             : calm_pool_alloc(walk->pool, bytes);
    uint64_t until = counter();
    note(walk, is_aligned ? ALLOC_ALIGNED : ALLOC, from, until);
    if (block != NULL)
        walk->held[walk->count++] = block;
}

static void do_free(struct walk *walk, bool is_remote)
{
    if (walk->count == 0)
        return;
    size_t i = below((uint32_t)walk->count);
    void *block = walk->held[i];
    walk->held[i] = walk->held[--walk->count];
    before(walk);
    uint64_t from = counter();
    if (is_remote)
        calm_pool_free_remote(walk->pool, block);
    else
        calm_pool_free(walk->pool, block);
    uint64_t until = counter();
    note(walk, is_remote ? FREE_REMOTE : FREE, from, until);
}

static void do_drain(struct walk *walk)
{
    before(walk);
    uint64_t from = counter();
    calm_pool_drain(walk->pool);
    uint64_t until = counter();
    note(walk, DRAIN, from, until);
}

static void do_nothing(struct walk *walk)
{
    before(walk);
    uint64_t from = counter();
    uint64_t until = counter();
    note(walk, NOTHING, from, until);
}

/* Tides: a pool is filled until a class is exhausted and beyond, then emptied, mostly by one of the
 * two ways to free. */
static void step(struct walk *walk, uint32_t number)
{
    bool is_rising = number / 4096 % 2 == 0, is_remote = number / 8192 % 2 == 0;
    uint32_t draw = below(100), class = below((uint32_t)walk->config.classes);
    do_nothing(walk);
    if (draw < (is_rising ? 70u : 25u))
        do_alloc(walk, class, draw % SHARES == 0);
    else if (draw < 97)
        do_free(walk, draw % SHARES == 0 ? !is_remote : is_remote);
    else
        do_drain(walk);
}

static int by_ticks(const void *a, const void *b)
{
    uint32_t one = *(const uint32_t *)a, other = *(const uint32_t *)b;
    return (one > other) - (one < other);
}

static void print_kind(const struct walk *walk, int kind, double ns)
{
    uint32_t *ticks = walk->ticks[kind];
    size_t calls = walk->calls[kind];
    qsort(ticks, calls, sizeof *ticks, by_ticks);
    printf("\"%s\": {\"calls\": %zu, \"p50\": %.1f, \"p9999\": %.1f, \"max\": %.1f}", names[kind],
           calls, ns * ticks[calls / 2], ns * ticks[calls - 1 - calls / 10000],
           ns * ticks[calls - 1]);
}

static bool run(struct walk *walk, const char *name, bool is_cold, size_t calls, double ns)
{
    if (calm_pool_create(&walk->config, &walk->pool) != 0)
        return false;
    walk->is_cold = is_cold;
    walk->count = 0;
    walk->calls_max = calls;
    for (int kind = 0; kind < KINDS; kind++)
        walk->calls[kind] = 0;
    for (size_t i = 0; i < calls; i++)
        step(walk, (uint32_t)i);
    calm_pool_destroy(walk->pool);
    printf("\"%s\": {", name);
    for (int kind = 0; kind < KINDS; kind++) {
        print_kind(walk, kind, ns);
        printf(kind + 1 < KINDS ? ", " : "}, ");
    }
    return true;
}

/* --- start --- */

static bool read_classes(struct walk *walk, int count, char **words, size_t *sizes,
                         uint32_t *blocks)
{
    if (count == 0 || count > PLANS_MAX)
        return false;
    for (int i = 0; i < count; i++) {
        char *end;
        sizes[i] = strtoull(words[i], &end, 10);
        if (*end != ':')
            return false;
        blocks[i] = (uint32_t)strtoul(end + 1, &end, 10);
        if (*end != '\0')
            return false;
        walk->capacity += blocks[i];
    }
    walk->config = (struct calm_pool_config){
        .block_bytes = sizes, .blocks = blocks, .classes = (size_t)count, .flags = CALM_POOL_LOCK};
    return true;
}

static bool pin(unsigned cpu)
{
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(cpu, &only);
    return sched_setaffinity(0, sizeof only, &only) == 0;
}

static void print_costs(const struct calm_pool_limits *limits)
{
    const struct calm_pool_cost *costs[] = {&limits->alloc, &limits->alloc_aligned, &limits->free,
                                            &limits->free_remote, &limits->drain};
    printf("\"is_computed\": %s, \"computed\": {", limits->cost_code == 0 ? "true" : "false");
    for (int kind = 0; kind < NOTHING; kind++)
        printf("\"%s\": {\"instructions\": %u, \"lines\": %u}%s", names[kind],
               costs[kind]->instructions, costs[kind]->lines, kind + 1 < NOTHING ? ", " : "}, ");
}

static int fail(const char *words, int code)
{
    fprintf(stderr, "calm_pool_measure: %s.\n", code > 0 ? calm_strerror(code) : words);
    return 1;
}

int main(int count, char **words)
{
    static size_t sizes[PLANS_MAX];
    static uint32_t blocks[PLANS_MAX];
    struct walk walk = {.capacity = 0};
    if (count < 4 || !read_classes(&walk, count - 3, words + 3, sizes, blocks))
        return 2;
    size_t calls = strtoull(words[2], NULL, 10);
    if (calls < 1000 || calls > 100000000)
        return 2;
    int code = calm_pool_bound(&walk.config, &walk.limits);
    if (code != 0)
        return fail(NULL, code);
    calm_pool *probe = NULL;
    code = calm_pool_create(&walk.config, &probe);
    bool is_locked = code == 0;
    if (code == CALM_ELOCK) {
        walk.config.flags = 0;
        code = calm_pool_create(&walk.config, &probe);
    }
    if (code != 0)
        return fail(NULL, code);
    calm_pool_destroy(probe);
    walk.held = malloc((walk.capacity + 1) * sizeof *walk.held);
    for (int kind = 0; kind < KINDS; kind++) {
        walk.ticks[kind] = malloc(calls * sizeof(uint32_t));
        if (walk.held == NULL || walk.ticks[kind] == NULL)
            return fail("no memory to note so many calls", 0);
        memset(walk.ticks[kind], 0, calls * sizeof(uint32_t));
    }
    if (!pin((unsigned)strtoul(words[1], NULL, 10)))
        return fail("this process may not use that CPU; see taskset -p", 0);
    double ns = ns_a_tick();
    struct sched_param priority = {.sched_priority = PRIORITY};
    bool is_fifo = sched_setscheduler(0, SCHED_FIFO, &priority) == 0;
    struct rusage first, last;
    getrusage(RUSAGE_SELF, &first);
    printf("{\"ns_a_tick\": %.6f, \"is_fifo\": %s, \"is_locked\": %s, ", ns,
           is_fifo ? "true" : "false", is_locked ? "true" : "false");
    if (!run(&walk, "warm", false, calls, ns) || !run(&walk, "cold", true, calls / 50, ns))
        return fail("the pool could not be made again", 0);
    getrusage(RUSAGE_SELF, &last);
    print_costs(&walk.limits);
    printf("\"bytes\": %zu, \"switches\": %ld, \"faults\": %ld}\n", walk.limits.bytes,
           last.ru_nivcsw - first.ru_nivcsw, last.ru_minflt - first.ru_minflt);
    return 0;
}
