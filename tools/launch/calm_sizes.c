/*
 * calm_sizes.c: records which sizes a program asks for, and how many blocks of each are alive at
 * once at most: what the classes of a pool must be able to hold.
 *
 *   CALM_SIZES=FILE LD_PRELOAD=libcalm_sizes.so:libcalmalloc.so PROGRAM
 *
 * Every request is passed on and noted: exact, not sampled. The size of each live block is kept in
 * a table out of line, under one lock, so a recorded run is slower and needs 32 bytes a block more.
 * FILE is written when the process ends by exit or return. Children are not recorded: the variable
 * is changed to name the process, and one that forked off writes nothing. What a process becomes by
 * exec is recorded anew.
 *
 * Not seen: what a program gets by mmap, or from an allocator of its own. A block that was asked
 * for before this library was ready is passed on unnoted.
 */
#define _GNU_SOURCE
#include "early_store.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    SIZES_EXACT = 1 << 20, /* each size up to this has a row; larger ones share the last */
    TABLE_FIRST = 1 << 16,
};

struct row {
    uint64_t allocs;
    uint32_t live, peak;
};

struct entry {
    uintptr_t block; /* 0: never used, 1: used before */
    size_t bytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct row *rows;
static struct entry *table;
static size_t capacity, filled;
static uint64_t live_bytes, peak_bytes;
static const char *path;
static pid_t recorded;
static volatile bool is_resolving; /* dlsym may ask for memory, which its header hides */

static void *(*next_malloc)(size_t);
static void (*next_free)(void *);
static void *(*next_calloc)(size_t, size_t);
static void *(*next_realloc)(void *, size_t);
static void *(*next_aligned)(size_t, size_t);

static void *map(size_t bytes)
{
    void *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return start == MAP_FAILED ? NULL : start;
}

static void resolve(void)
{
    if (next_malloc != NULL || is_resolving)
        return;
    is_resolving = true;
    *(void **)&next_free = dlsym(RTLD_NEXT, "free");
    *(void **)&next_calloc = dlsym(RTLD_NEXT, "calloc");
    *(void **)&next_realloc = dlsym(RTLD_NEXT, "realloc");
    *(void **)&next_aligned = dlsym(RTLD_NEXT, "memalign");
    *(void **)&next_malloc = dlsym(RTLD_NEXT, "malloc");
    is_resolving = false;
}

static struct entry *slot_of(uintptr_t block)
{
    size_t at = (size_t)((block >> 3) * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (capacity - 1);
    while (table[at].block != block && table[at].block != 0)
        at = (at + 1) & (capacity - 1);
    return &table[at];
}

/* Twice as large, or as large as before when most entries are used-before ones. */
static bool grow(void)
{
    struct entry *before = table;
    size_t count = capacity, live = 0;
    for (size_t i = 0; i < count; i++)
        live += before[i].block > 1;
    size_t wanted = count == 0 ? TABLE_FIRST : live > count / 4 ? count * 2 : count;
    struct entry *after = map(wanted * sizeof *after);
    if (after == NULL)
        return false;
    table = after;
    capacity = wanted;
    filled = live;
    for (size_t i = 0; i < count; i++)
        if (before[i].block > 1)
            *slot_of(before[i].block) = before[i];
    if (before != NULL)
        munmap(before, count * sizeof *before);
    return true;
}

static struct row *row_of(size_t bytes)
{
    return &rows[bytes <= SIZES_EXACT ? bytes : SIZES_EXACT + 1];
}

static void note(void *block, size_t bytes)
{
    if (block == NULL || path == NULL)
        return;
    pthread_mutex_lock(&lock);
    if (filled < capacity / 2 || grow()) {
        struct entry *entry = slot_of((uintptr_t)block);
        filled += entry->block == 0;
        *entry = (struct entry){(uintptr_t)block, bytes};
        struct row *row = row_of(bytes);
        row->allocs++;
        row->live++;
        row->peak = row->live > row->peak ? row->live : row->peak;
        live_bytes += bytes;
        peak_bytes = live_bytes > peak_bytes ? live_bytes : peak_bytes;
    }
    pthread_mutex_unlock(&lock);
}

/* Before the block goes: another thread may get its address at once. */
static void forget(void *block)
{
    if (block == NULL || path == NULL)
        return;
    pthread_mutex_lock(&lock);
    struct entry *entry = capacity == 0 ? NULL : slot_of((uintptr_t)block);
    if (entry != NULL && entry->block != 0) {
        row_of(entry->bytes)->live--;
        live_bytes -= entry->bytes;
        entry->block = 1;
    }
    pthread_mutex_unlock(&lock);
}

static void *noted(void *block, size_t bytes)
{
    note(block, bytes);
    return block;
}

void *malloc(size_t bytes)
{
    resolve();
    return next_malloc == NULL ? early_store_take(bytes) : noted(next_malloc(bytes), bytes);
}

void free(void *block)
{
    if (early_store_holds(block))
        return;
    resolve();
    forget(block);
    next_free(block);
}

void *calloc(size_t count, size_t bytes)
{
    resolve();
    if (next_calloc == NULL)
        return early_store_take(count * bytes);
    return noted(next_calloc(count, bytes), count * bytes);
}

void *realloc(void *block, size_t bytes)
{
    resolve();
    if (early_store_holds(block)) {
        void *moved = malloc(bytes);
        size_t behind = early_store_readable(block);
        return moved == NULL ? NULL : memcpy(moved, block, bytes < behind ? bytes : behind);
    }
    forget(block);
    void *moved = next_realloc(block, bytes);
    if (moved == NULL && bytes != 0 && block != NULL)
        note(block, bytes); /* it stays; its old size is gone, which a failed request may cost */
    return noted(moved, bytes);
}

void *memalign(size_t align, size_t bytes)
{
    resolve();
    return noted(next_aligned(align, bytes), bytes);
}

void *aligned_alloc(size_t align, size_t bytes)
{
    return memalign(align, bytes);
}

int posix_memalign(void **out, size_t align, size_t bytes)
{
    if (align < sizeof(void *) || (align & (align - 1)) != 0)
        return EINVAL;
    void *block = memalign(align, bytes);
    if (block == NULL)
        return ENOMEM;
    *out = block;
    return 0;
}

/* C++: the forms of new are the next library's, which throws where it must; those of delete free.
 */
#define NEW(name, parameters, arguments)                                                           \
    void *name parameters;                                                                         \
    void *name parameters                                                                          \
    {                                                                                              \
        static void *(*next)parameters;                                                            \
        if (next == NULL)                                                                          \
            *(void **)&next = dlsym(RTLD_NEXT, #name);                                             \
        return noted(next arguments, bytes);                                                       \
    }
#define NEW_ALIGNED NEW

#include "operators.h"

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void begin(void)
{
    const char *wanted = getenv("CALM_SIZES");
    resolve();
    rows = map((SIZES_EXACT + 2) * sizeof *rows);
    if (wanted == NULL || rows == NULL || pthread_atfork(before_fork, after_fork, after_fork) != 0)
        return;
    int own = getpid(), named = own, at = 0;
    if (sscanf(wanted, "@%d:%n", &named, &at) == 1 && named != own)
        return; /* a child */
    char *kept = strdup(wanted + at);
    char text[4200];
    snprintf(text, sizeof text, "@%d:%s", own, kept);
    setenv("CALM_SIZES", text, 1);
    recorded = own;
    path = kept;
}

__attribute__((destructor)) static void end(void)
{
    const char *name = path;
    if (name == NULL || getpid() != recorded)
        return;
    pthread_mutex_lock(&lock);
    path = NULL; /* what the C library asks for now is not the program's */
    pthread_mutex_unlock(&lock);
    FILE *file = fopen(name, "we");
    if (file == NULL) {
        fprintf(stderr, "calm: sizes cannot be written to '%s': %s\n", name, strerror(errno));
        return;
    }
    fprintf(file,
            "{\"peak_live_bytes\": %llu, \"larger\": {\"allocs\": %llu, \"peak\": %u},\n"
            " \"sizes\": [",
            (unsigned long long)peak_bytes, (unsigned long long)rows[SIZES_EXACT + 1].allocs,
            rows[SIZES_EXACT + 1].peak);
    const char *comma = "";
    for (size_t bytes = 0; bytes <= SIZES_EXACT; bytes++) {
        if (rows[bytes].allocs == 0)
            continue;
        fprintf(file, "%s\n  {\"bytes\": %zu, \"allocs\": %llu, \"peak\": %u}", comma, bytes,
                (unsigned long long)rows[bytes].allocs, rows[bytes].peak);
        comma = ",";
    }
    fprintf(file, "\n]}\n");
    fclose(file);
}
