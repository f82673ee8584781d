/*
 * resident.h: what stays resident, over time and on request: the curve that memory rows draw, the
 * samples at 0, 1 and 11 s, and each library's own way to give memory back when asked.
 *
 * watch_start() comes before the work: it looks up what is needed later, as looking up may
 * allocate. From then on nothing here calls the allocator, except for asking it to give back.
 */
#ifndef CALM_BENCH_RESIDENT_H
#define CALM_BENCH_RESIDENT_H

#include "workload.h"

/* --- asking --- */

static bool ask_malloc_trim(void *function)
{
    ((int (*)(size_t))function)(0);
    return true;
}

static bool ask_mi_collect(void *function)
{
    ((void (*)(bool))function)(true);
    return true;
}

static bool ask_release_free_memory(void *function)
{
    ((void (*)(void))function)();
    return true;
}

/* 4096 stands for all arenas. */
static bool ask_mallctl(void *function)
{
    return ((int (*)(const char *, void *, size_t *, void *, size_t))function)(
               "arena.4096.purge", NULL, NULL, NULL, 0) == 0;
}

/* Scudo's M_PURGE. Others refuse the number and so were not asked. */
static bool ask_mallopt(void *function)
{
    return ((int (*)(int, int))function)(-101, 0) == 1;
}

static const struct {
    const char *name;
    bool (*ask)(void *function);
} trim_ways[] = {
    {"malloc_trim", ask_malloc_trim},
    {"mi_collect", ask_mi_collect},
    {"MallocExtension_ReleaseFreeMemory", ask_release_free_memory},
    {"mallctl", ask_mallctl},
    {"mallopt", ask_mallopt},
};
enum { TRIM_WAYS = sizeof trim_ways / sizeof trim_ways[0] };

static void *trim_function;
static unsigned trim_way;
static bool was_asked;

/* The first way whose function lies in the same file as malloc: under a preloaded library the C
 * library's own functions are still there, and would give back nothing of it. */
static inline void trim_find(void)
{
    Dl_info ours, other;
    if (dladdr(dlsym(RTLD_DEFAULT, "malloc"), &ours) == 0)
        fail("the file that malloc comes from is unknown");
    for (unsigned i = 0; i < TRIM_WAYS; i++) {
        void *function = dlsym(RTLD_DEFAULT, trim_ways[i].name);
        if (function != NULL && dladdr(function, &other) != 0 &&
            ours.dli_fbase == other.dli_fbase) {
            trim_function = function;
            trim_way = i;
            return;
        }
    }
}

/* Asks the library to give back what it can, if it has a way to be asked. */
static inline void trim(void)
{
    was_asked = trim_function != NULL && trim_ways[trim_way].ask(trim_function);
}

/* --- the curve --- */

enum { CURVE_POINTS_MAX = 1024 };

static const double curve_step = 0.25;
static double curve[CURVE_POINTS_MAX][2], curve_origin;
static size_t curve_count;

/* Touches what sampling and waiting need, code included, so that no later sample has it as growth.
 */
static inline void watch_start(void)
{
    trim_find();
    memset(curve, 0, sizeof curve);
    read_memory();
    sleep_until(read_clocks().wall + 0.001);
    curve_origin = read_clocks().wall;
}

/* Reads what is resident and adds a point to the curve. */
static inline struct memory watch_sample(void)
{
    struct memory memory = read_memory();
    if (curve_count == CURVE_POINTS_MAX)
        fail("a curve has at most %d points", CURVE_POINTS_MAX);
    curve[curve_count][0] = read_clocks().wall - curve_origin;
    curve[curve_count][1] = (double)memory.resident_kib;
    curve_count++;
    return memory;
}

/* Waits until `wall`, sampling; returns the last sample, which is taken then. */
static inline struct memory watch_until(double wall)
{
    for (double now = read_clocks().wall; now + curve_step < wall; now = read_clocks().wall) {
        sleep_until(now + curve_step);
        watch_sample();
    }
    sleep_until(wall);
    return watch_sample();
}

/* KiB, of all samples so far. */
static inline double watch_highest(void)
{
    double highest = 0;
    for (size_t i = 0; i < curve_count; i++)
        highest = curve[i][1] > highest ? curve[i][1] : highest;
    return highest;
}

/* --- after the work --- */

struct aftermath {
    unsigned samples;
    struct memory at[3];
    struct memory trimmed;
};

/* Samples at 0 s and, if it `waits`, at 1 and 11 s; then asks to give back and samples again. */
static inline struct aftermath watch_aftermath(bool waits)
{
    static const double seconds[3] = {0, 1, 11};
    struct aftermath after = {.samples = waits ? 3 : 1};
    double mark = read_clocks().wall;
    for (unsigned i = 0; i < after.samples; i++)
        after.at[i] = watch_until(mark + seconds[i]);
    trim();
    after.trimmed = watch_sample();
    return after;
}

/* The last sample before the library was asked. */
static inline struct memory aftermath_last(const struct aftermath *after)
{
    return after->at[after->samples - 1];
}

/* Adds `resident_<prefix>0s_kib`, `..1s..`, `..11s..`, `..trimmed..` and their companions. */
static inline void result_aftermath(const char *prefix, const struct aftermath *after)
{
    static const char *const names[3] = {"0s", "1s", "11s"};
    char name[64];
    for (unsigned i = 0; i < after->samples; i++) {
        snprintf(name, sizeof name, "%s%s", prefix, names[i]);
        result_memory(name, after->at[i]);
    }
    snprintf(name, sizeof name, "%strimmed", prefix);
    result_memory(name, after->trimmed);
}

/* Adds the curve and how the library was asked: `trimmed` figures mean nothing where it was not. */
static inline void result_watch(void)
{
    result_number("trim_asked", was_asked);
    result_text(", \"trim_by\": \"%s\"", was_asked ? trim_ways[trim_way].name : "");
    result_series("resident_kib", (const double(*)[2])curve, curve_count);
}

#endif
