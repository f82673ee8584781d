/*
 * utilisation.c: what part of the pages that a skewed key-value load touches is what it touches.
 *
 * A store takes keys that come one after the other; then an interval of requests follows Zipf's
 * law. Every block has 64 bytes, so only the place it is asked for at can part what is used from
 * what is not. Prints the MiB touched in the interval, the MiB of the pages they lie on, the
 * quotient, the MiB of all pages that hold blocks, and nanoseconds a request.
 *
 *   kinds  one key in ten is a session, made at a place of its own; the others are an archive that
 *          nobody asks for
 *   parts  each key has a node of the index, a value and a record of its history, each made at a
 *          place of its own; a request touches the nodes of a chain, and the value
 *   keys   all are made at one place; which are asked for is Zipf's law alone
 *
 * Before and in the interval one request in eight replaces what it finds, so lifetimes can be
 * learned.
 *
 * Then cold pages go to swap, if the machine has swap (calm_page_out_cold); prints what stays.
 *
 *     cc -O2 utilisation.c -lm -o utilisation
 *     for sites in off hash learned intern; do
 *         CALM_OPTIONS=sites=$sites LD_PRELOAD=libcalmalloc.so ./utilisation kinds; done
 */
#define _GNU_SOURCE
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#ifndef KEYS
#define KEYS 400000
#endif

enum {
    REQUESTS = 400000,
    BUCKETS = KEYS / 2,
    BLOCK = 64,
    PAGE = 64 * BLOCK, /* a word of the map for each */
    REPLACED_ONE_IN = 8,
    PASSES = 10,
    AGE_MS = 200,
    SESSION_ONE_IN = 10,
};
enum mode { KINDS, PARTS, PLAIN };

struct item {
    struct item *next, *value, *history;
    uint64_t key;
    char rest[BLOCK - 32];
};

/* calmalloc's, where the program runs on it. */
__attribute__((weak)) size_t calm_page_out_cold(uint64_t age_ms);

static enum mode mode;
static struct item *items[KEYS], *buckets[BUCKETS];
static uint32_t ranked[KEYS]; /* the keys that are asked for, the most popular first */
static size_t ranks;
static uintptr_t base;
static size_t words;
static uint64_t *touched; /* a bit for each block */
static uint64_t sum;

static uint64_t next_random(void)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

/* A key by its rank: the inverse of the integral of the law with exponent 0.99. */
static uint32_t key_asked_for(void)
{
    const double a = 0.01;
    double u = (double)(next_random() >> 11) / 9007199254740992.0;
    size_t rank = (size_t)(pow(u * (pow((double)ranks, a) - 1) + 1, 1 / a) - 1);
    return ranked[rank < ranks ? rank : ranks - 1];
}

static struct item *new_item(struct item *item, uint64_t key)
{
    if (item == NULL)
        exit(1);
    memset(item, 0, sizeof *item);
    item->key = key;
    return item;
}

/* Each has one call of malloc, so one site; they differ, or the compiler would make them one. */
#define PLACE(name, mark)                                                                          \
    static __attribute__((noinline)) struct item *name(uint64_t key)                               \
    {                                                                                              \
        struct item *item = new_item(malloc(sizeof(struct item)), key);                            \
        item->rest[0] = mark;                                                                      \
        return item;                                                                               \
    }
PLACE(make_session, 's')
PLACE(make_archived, 'a')
PLACE(make_node, 'n')
PLACE(make_value, 'v')
PLACE(make_history, 'h')

static void mark(uint64_t *map, const struct item *item)
{
    size_t block = ((uintptr_t)item - base) / BLOCK;
    if (block / 64 >= words)
        exit(2);
    map[block / 64] |= (uint64_t)1 << block % 64;
}

static void touch(struct item *item)
{
    sum += item->key;
    if (touched != NULL)
        mark(touched, item);
}

static struct item *make(uint32_t key)
{
    if (mode == PARTS)
        return make_node(key);
    return mode == PLAIN || key % SESSION_ONE_IN == 0 ? make_session(key) : make_archived(key);
}

static void insert(uint32_t key)
{
    items[key] = make(key);
    if (mode != PARTS)
        return;
    items[key]->value = make_value(key);
    items[key]->history = make_history(key);
    items[key]->next = buckets[key % BUCKETS];
    buckets[key % BUCKETS] = items[key];
}

static void request(void)
{
    uint32_t key = key_asked_for();
    struct item *item = items[key], **found = &items[key];
    if (mode == PARTS) {
        for (item = buckets[key % BUCKETS]; item->key != key; item = item->next)
            touch(item);
        found = &item->value;
    }
    touch(item);
    touch(*found);
    if (next_random() % REPLACED_ONE_IN != 0)
        return;
    free(*found);
    *found = mode == PARTS ? make_value(key) : make(key);
    touch(*found);
}

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static double interval(void)
{
    double begun = now_ns();
    for (size_t i = 0; i < REQUESTS; i++)
        request();
    return (now_ns() - begun) / REQUESTS;
}

static double resident_mib(void)
{
    unsigned long size = 0, pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%lu %lu", &size, &pages) != 2)
        exit(3);
    fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / (1 << 20);
}

/* What stays in memory where cold units go to swap while requests come. */
static void page_out(void)
{
    double before = resident_mib();
    for (unsigned i = 0; calm_page_out_cold != NULL && i < PASSES; i++) {
        calm_page_out_cold(AGE_MS);
        for (double end = now_ns() + 2e6 * AGE_MS; now_ns() < end;)
            interval();
    }
    printf("       %5.1f MiB resident, %5.1f once cold pages could go\n", before, resident_mib());
}

/* Zeros, past the allocator: with room for blocks around those there are. */
static uint64_t *make_map(void)
{
    const uintptr_t around = (uintptr_t)64 << 20;
    uintptr_t lowest = UINTPTR_MAX, highest = 0;
    for (size_t i = 0; i < KEYS; i++)
        for (const struct item *item = items[i]; item != NULL;
             item = item == items[i] ? item->history : NULL) {
            lowest = (uintptr_t)item < lowest ? (uintptr_t)item : lowest;
            highest = (uintptr_t)item > highest ? (uintptr_t)item : highest;
        }
    base = (lowest - around) / PAGE * PAGE;
    words = (highest + around - base) / PAGE;
    return mmap(NULL, words * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void count(const uint64_t *map, double *mib, double *pages_mib)
{
    size_t blocks = 0, pages = 0;
    for (size_t i = 0; i < words; i++) {
        blocks += (size_t)__builtin_popcountll(map[i]);
        pages += map[i] != 0;
    }
    *mib = (double)blocks * BLOCK / (1 << 20);
    *pages_mib = (double)pages * PAGE / (1 << 20);
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "kinds";
    mode = strcmp(name, "parts") == 0 ? PARTS : strcmp(name, "keys") == 0 ? PLAIN : KINDS;
    for (uint32_t key = 0; key < KEYS; key++) {
        insert(key);
        if (mode != KINDS || key % SESSION_ONE_IN == 0)
            ranked[ranks++] = key;
    }
    for (size_t i = ranks; i > 1; i--) { /* popularity has nothing to do with age */
        size_t other = next_random() % i;
        uint32_t key = ranked[i - 1];
        ranked[i - 1] = ranked[other];
        ranked[other] = key;
    }
    interval();
    double ns = interval(); /* without the books */
    uint64_t *map = make_map(), *held = make_map();
    touched = map;
    interval();
    touched = NULL;
    for (size_t i = 0; i < KEYS; i++) {
        mark(held, items[i]);
        if (mode == PARTS) {
            mark(held, items[i]->value);
            mark(held, items[i]->history);
        }
    }
    double mib, pages_mib, held_mib, all_mib;
    count(map, &mib, &pages_mib);
    count(held, &held_mib, &all_mib);
    printf("%-6s touched %5.1f MiB on %5.1f MiB of pages: %4.1f %%; all %5.1f MiB; %4.0f ns\n",
           name, mib, pages_mib, 100 * mib / pages_mib, all_mib, ns);
    page_out();
    return sum == 0;
}
