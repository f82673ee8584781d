/*
 * sim.c: failure plans, limits and counters.
 *
 * Owner: any thread; every word is atomic. A plan is an absolute call number, so threads need no
 * order.
 */
#define _GNU_SOURCE

#include "os/sim/sim.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/bits.h"
#include "base/check.h"
#include "os/lock.h"
#include "os/sim/state.h"

enum { NEVER = 0 };

static _Atomic uint64_t calls[SIM_CALL_COUNT];
static _Atomic uint64_t fallible;
static _Atomic uint64_t failures;
static _Atomic uint64_t fail_once;     /* number of the fallible call that fails       */
static _Atomic uint64_t fail_all_from; /* number of the first fallible call that fails */
static _Atomic uint64_t fail_kind_from[SIM_CALL_COUNT]; /* first failing call of each kind */
static _Atomic size_t reserved_max = SIZE_MAX;
static _Atomic size_t committed_max = SIZE_MAX;
static _Atomic bool makes_holes;
static _Atomic uint64_t touch_ns;
static _Atomic bool is_environment_read;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

uint64_t sim_environment(const char *name, uint64_t standard)
{
    const char *words = getenv(name);
    return words == NULL ? standard : strtoull(words, NULL, 10);
}

size_t sim_page_bytes(void)
{
    static _Atomic size_t known;
    size_t bytes = load(&known, RELAXED);
    if (likely(bytes != 0))
        return bytes;
    size_t real = (size_t)sysconf(_SC_PAGESIZE);
    bytes = sim_environment("CALM_SIM_PAGE_BYTES", real);
    if (!is_power_of_two(bytes) || bytes < real)
        sim_stop("CALM_SIM_PAGE_BYTES is %zu: a power of two, at least %zu, can be simulated",
                 bytes, real);
    store(&known, bytes, RELAXED);
    return bytes;
}

/* Runs before any other plan is set. */
static void read_environment(void)
{
    if (exchange(&is_environment_read, true, RELAXED))
        return;
    store(&fail_once, sim_environment("CALM_SIM_FAIL_NTH", NEVER), RELAXED);
    store(&fail_all_from, sim_environment("CALM_SIM_FAIL_FROM", NEVER), RELAXED);
    store(&reserved_max, sim_environment("CALM_SIM_SPACE", SIZE_MAX), RELAXED);
}

static bool is_reached(_Atomic uint64_t *from, uint64_t number)
{
    uint64_t first = load(from, RELAXED);
    return first != NEVER && number >= first;
}

bool sim_enter(enum sim_call kind)
{
    read_environment();
    uint64_t of_kind = fetch_add(&calls[kind], 1, RELAXED) + 1;
    if (kind >= SIM_FALLIBLE_COUNT)
        return false;
    uint64_t number = fetch_add(&fallible, 1, RELAXED) + 1;
    bool fails = load(&fail_once, RELAXED) == number || is_reached(&fail_all_from, number) ||
                 is_reached(&fail_kind_from[kind], of_kind);
    if (fails)
        fetch_add(&failures, 1, RELAXED);
    return fails;
}

void sim_check_unlocked(const char *name)
{
    uint32_t forbidden = 1u << RANK_DEPOT | 1u << RANK_SPAN;
    if ((lock_ranks_held & forbidden) != 0)
        sim_stop("%s under a depot's or the spans' lock (held ranks: bits %u)", name,
                 (unsigned)lock_ranks_held);
}

bool sim_enter_kernel(enum sim_call kind, const char *name)
{
    sim_check_unlocked(name);
    return sim_enter(kind);
}

void sim_fail_nth(uint64_t nth)
{
    read_environment();
    store(&fail_once, load(&fallible, RELAXED) + nth, RELAXED);
}

void sim_fail_from(uint64_t nth)
{
    read_environment();
    store(&fail_all_from, load(&fallible, RELAXED) + nth, RELAXED);
}

void sim_fail_kind(enum sim_call kind, uint64_t nth)
{
    read_environment();
    store(&fail_kind_from[kind], load(&calls[kind], RELAXED) + nth, RELAXED);
}

void sim_limit_reserved(size_t bytes)
{
    read_environment();
    store(&reserved_max, bytes, RELAXED);
}

void sim_limit_committed(size_t bytes)
{
    read_environment();
    store(&committed_max, bytes, RELAXED);
}

void sim_make_holes(bool is_wanted)
{
    store(&makes_holes, is_wanted, RELAXED);
}

void sim_touch_takes(uint64_t ns)
{
    store(&touch_ns, ns, RELAXED);
}

uint64_t sim_touch_ns(void)
{
    return load(&touch_ns, RELAXED);
}

bool sim_makes_holes(void)
{
    return load(&makes_holes, RELAXED);
}

void sim_recover(void)
{
    store(&fail_once, NEVER, RELAXED);
    store(&fail_all_from, NEVER, RELAXED);
    for (unsigned kind = 0; kind < SIM_CALL_COUNT; kind++)
        store(&fail_kind_from[kind], NEVER, RELAXED);
    sim_limit_reserved(SIZE_MAX);
    sim_limit_committed(SIZE_MAX);
    sim_make_holes(false);
}

uint64_t sim_calls(enum sim_call kind)
{
    return load(&calls[kind], RELAXED);
}

uint64_t sim_fallible_calls(void)
{
    return load(&fallible, RELAXED);
}

uint64_t sim_failures(void)
{
    return load(&failures, RELAXED);
}

size_t sim_reserved_max(void)
{
    return load(&reserved_max, RELAXED);
}

size_t sim_committed_max(void)
{
    return load(&committed_max, RELAXED);
}

void sim_lock(void)
{
    pthread_mutex_lock(&mutex);
}

void sim_unlock(void)
{
    pthread_mutex_unlock(&mutex);
}

void sim_lock_reset(void)
{
    pthread_mutex_init(&mutex, NULL);
}
