/*
 * delay: a preloadable wrapper that makes any allocator slower by a known amount, for the positive
 * control of the runner.
 *
 *   LD_PRELOAD=libdelay.so:REAL.so CALM_DELAY_TURNS=T CALM_DELAY_EVERY=E PROGRAM
 *
 * Every E-th call of a thread spends T turns of an empty loop, about a cycle each; with T = 0 the
 * way through the wrapper is the same, so that only the delay is between the two. With
 * CALM_DELAY_COUNT=FILE each process adds a line with its number of calls to FILE at its end.
 *
 * Owner: the tables of functions are written once, by the first call of the process, which comes
 * before any second thread. What the loader asks for while the real functions are being looked up
 * comes from a small store that is never given back. Calls that a C++ program makes of the real
 * library's own operator new do not come by here.
 */
#define _GNU_SOURCE
#include "../../tools/launch/early_store.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    void *(*malloc)(size_t);
    void (*free)(void *);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void *(*aligned_alloc)(size_t, size_t);
    void *(*memalign)(size_t, size_t);
    int (*posix_memalign)(void **, size_t, size_t);
} next;

static bool is_ready, is_resolving;

static uint64_t turns, every = 1;
static const char *count_path;
static _Atomic uint64_t calls_total;
static __attribute__((tls_model("initial-exec"))) _Thread_local uint64_t calls_since;

static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text == NULL ? otherwise : strtoull(text, NULL, 10);
}

static void *find(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (found == NULL)
        abort();
    return found;
}

static void resolve(void)
{
    is_resolving = true;
    *(void **)&next.malloc = find("malloc");
    *(void **)&next.free = find("free");
    *(void **)&next.calloc = find("calloc");
    *(void **)&next.realloc = find("realloc");
    *(void **)&next.aligned_alloc = find("aligned_alloc");
    *(void **)&next.memalign = find("memalign");
    *(void **)&next.posix_memalign = find("posix_memalign");
    turns = setting("CALM_DELAY_TURNS", 0);
    every = setting("CALM_DELAY_EVERY", 1);
    count_path = getenv("CALM_DELAY_COUNT");
    is_resolving = false;
    is_ready = true;
}

/* The delay, and the count where it is asked for. */
static inline void pass(void)
{
    if (__builtin_expect(!is_ready, 0))
        resolve();
    if (__builtin_expect(++calls_since >= every, 0)) {
        calls_since = 0;
        for (uint64_t turn = turns; turn > 0; turn--)
            __asm__ volatile("" : "+r"(turn));
        if (count_path != NULL)
            atomic_fetch_add_explicit(&calls_total, every, memory_order_relaxed);
    }
}

void *malloc(size_t bytes)
{
    if (is_resolving)
        return early_store_take(bytes);
    pass();
    return next.malloc(bytes);
}

void free(void *block)
{
    if (early_store_holds(block))
        return;
    pass();
    next.free(block);
}

void *calloc(size_t count, size_t bytes)
{
    if (is_resolving)
        return early_store_take(count * bytes); /* fresh, hence zero */
    pass();
    return next.calloc(count, bytes);
}

void *realloc(void *block, size_t bytes)
{
    if (is_resolving)
        return early_store_take(bytes);
    pass();
    if (!early_store_holds(block))
        return next.realloc(block, bytes);
    void *moved = next.malloc(bytes);
    size_t behind = early_store_readable(block);
    return moved == NULL ? NULL : memcpy(moved, block, bytes < behind ? bytes : behind);
}

void *aligned_alloc(size_t align, size_t bytes)
{
    pass();
    return next.aligned_alloc(align, bytes);
}

void *memalign(size_t align, size_t bytes)
{
    pass();
    return next.memalign(align, bytes);
}

int posix_memalign(void **out, size_t align, size_t bytes)
{
    pass();
    return next.posix_memalign(out, align, bytes);
}

static void append_number(uint64_t number)
{
    char text[24];
    size_t at = sizeof text;
    text[--at] = '\n';
    do
        text[--at] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    int file = open(count_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (file < 0)
        return;
    ssize_t written = write(file, text + at, sizeof text - at);
    (void)written; /* a missing line is a missing count, which the reader sees */
    close(file);
}

__attribute__((destructor)) static void report(void)
{
    if (count_path != NULL)
        append_number(atomic_load_explicit(&calls_total, memory_order_relaxed));
}
