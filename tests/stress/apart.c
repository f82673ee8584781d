/*
 * apart.c: sites free and allocate blocks of equal sizes, in several threads, and no address that
 * one site had ever comes to another: with sites=intern.
 *
 * The oracle remembers, for each unit of address space, the first site that had a block in it: a
 * unit is one site's for ever, so no address of it can come to another. Every form of request is a
 * site of its own. Blocks are small, medium and large, sampled or not, realloc moves them between
 * sites, pages are purged, caches are flushed and dropped, and a forked child goes on.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arguments.h"
#include "calmalloc/calmalloc.h"

enum {
    THREADS = 4,
    SLOTS = 1500,
    TRADED = 256,
    UNIT = 8192, /* bytes that have one site */
    CHILD_SHARE = 16,
};

static const size_t sizes[] = {48,   48,   48,   64,   64,    200,   200,   1000,
                               1000, 1024, 3000, 3000, 20000, 20000, 40000, 100000};
enum { SIZES = sizeof sizes / sizeof sizes[0], LARGE = 300000, HUGE_BYTES = 33 * 1024 * 1024 };

/* The site that first had a unit, plus one. Covers the addresses around the first block. */
static const size_t covered = (size_t)256 << 30;
static uintptr_t base;
static _Atomic uint16_t *had;
static _Atomic(void *) traded[TRADED];
static void *slots[THREADS][SLOTS];
static uint64_t seed, steps;

/* Each of these functions has a call of its own for each site; none is a jump. */
#define KEPT(block)                                                                                \
    void *result = (block);                                                                        \
    __asm__ volatile("" : "+r"(result));                                                           \
    return result
#define SITE(n)                                                                                    \
    static __attribute__((noinline)) void *plain_##n(void *block, size_t bytes)                    \
    {                                                                                              \
        (void)block;                                                                               \
        KEPT(calm_malloc(bytes));                                                                  \
    }                                                                                              \
    static __attribute__((noinline)) void *zeroed_##n(void *block, size_t bytes)                   \
    {                                                                                              \
        (void)block;                                                                               \
        KEPT(calm_calloc(1, bytes));                                                               \
    }                                                                                              \
    static __attribute__((noinline)) void *aligned_##n(void *block, size_t bytes)                  \
    {                                                                                              \
        (void)block;                                                                               \
        KEPT(calm_aligned_alloc(64, bytes));                                                       \
    }                                                                                              \
    static __attribute__((noinline)) void *resized_##n(void *block, size_t bytes)                  \
    {                                                                                              \
        KEPT(calm_realloc(block, bytes));                                                          \
    }
#define FORMS(n) plain_##n, zeroed_##n, aligned_##n, resized_##n
enum { FORM_COUNT = 4, FORM_RESIZED = 3 };

SITE(0)
SITE(1)
SITE(2)
SITE(3) SITE(4) SITE(5) SITE(6) SITE(7) static void *(*const sites[])(void *, size_t) = {
    FORMS(0), FORMS(1), FORMS(2), FORMS(3), FORMS(4), FORMS(5), FORMS(6), FORMS(7)};
enum { SITES = sizeof sites / sizeof sites[0] };

static void claim(uintptr_t at, unsigned site)
{
    uint16_t first = 0;
    _Atomic uint16_t *unit = &had[(at - base) / UNIT];
    if (at - base >= covered)
        stress_fail("%p is beyond what the oracle covers", (void *)at);
    if (!atomic_compare_exchange_strong(unit, &first, (uint16_t)(site + 1)) && first != site + 1)
        stress_fail("site %u was given %p, whose unit site %u had", site, (void *)at, first - 1u);
}

/* A request by a site, whose address space it is from now on. */
static void *request(unsigned site, void *block, size_t bytes)
{
    char *result = sites[site](block, bytes);
    if (result == NULL)
        stress_fail("site %u: no memory for %zu bytes", site, bytes);
    uintptr_t last = (uintptr_t)result + bytes - 1;
    for (uintptr_t at = (uintptr_t)result; at / UNIT <= last / UNIT; at += UNIT)
        claim(at, site);
    *(volatile char *)result = 1;
    return result;
}

static unsigned any_site(uint64_t *random, bool is_new)
{
    unsigned site = (unsigned)(stress_random(random) % SITES);
    return is_new && site % FORM_COUNT == FORM_RESIZED ? site - 1 : site;
}

/* An object of one site is freed, and another site asks for one of the same size. */
static void confuse(uint64_t *random)
{
    size_t bytes = sizes[stress_random(random) % SIZES];
    unsigned first = any_site(random, true), second = any_site(random, true);
    void *object = request(first, NULL, bytes);
    calm_free(object);
    void *other = request(second, NULL, bytes);
    if (other == object && first != second)
        stress_fail("%p of site %u came to site %u", other, first, second);
    calm_free(other);
}

/* Huge blocks go by the kernel's own means from a site to another. */
static void confuse_huge(uint64_t *random)
{
    void *block = request(any_site(random, true), NULL, HUGE_BYTES);
    unsigned site = any_site(random, true) / FORM_COUNT * FORM_COUNT + FORM_RESIZED;
    calm_free(request(site, block, HUGE_BYTES + LARGE));
}

static void churn(void **slot, uint64_t *random)
{
    uint64_t choice = stress_random(random) % 1024;
    size_t bytes = choice == 0 ? LARGE : sizes[stress_random(random) % SIZES];
    if (*slot == NULL)
        *slot = request(any_site(random, true), NULL, bytes);
    else if (choice % 8 == 1)
        *slot = request(any_site(random, true) / FORM_COUNT * FORM_COUNT + FORM_RESIZED, *slot,
                        bytes);
    else if (choice % 8 == 2)
        *slot = atomic_exchange(&traded[stress_random(random) % TRADED], *slot);
    else {
        calm_free(*slot);
        *slot = NULL;
    }
}

static void work_on(void **mine, uint64_t random, uint64_t count)
{
    for (uint64_t step = 1; step <= count; step++) {
        confuse(&random);
        churn(&mine[stress_random(&random) % SLOTS], &random);
        if (step % 65536 == 0)
            confuse_huge(&random);
        if (step % 16384 == 0)
            calm_trim();
    }
}

static void *work(void *argument)
{
    void **mine = argument;
    unsigned number = (unsigned)((void *(*)[SLOTS])argument - slots);
    work_on(mine, seed * THREADS + number + 1, steps / 3);
    if (number == 0)
        calm_profile_start(2048, seed);
    work_on(mine, seed * THREADS + number + 101, steps / 3);
    if (number == 0)
        calm_profile_stop();
    work_on(mine, seed * THREADS + number + 201, steps / 3);
    return NULL;
}

static void check(void)
{
    const char *verdict = calm_verify();
    struct calm_stats stats;
    if (verdict != NULL)
        stress_fail("calm_verify: %s", verdict);
    calm_stats_read(&stats);
    if (stats.interned_sites < SITES || stats.overflow_sites != 0)
        stress_fail("%llu sites are interned: is it sites=intern?",
                    (unsigned long long)stats.interned_sites);
}

/* A child goes on where its parent was, whose other threads may be anywhere. */
static void fork_child(void)
{
    static void *fresh[SLOTS];
    pid_t child = fork();
    if (child == 0) {
        work_on(fresh, seed + 1000, steps / CHILD_SHARE);
        check();
        _exit(0);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        stress_fail("the child failed");
}

static void release_all(void)
{
    for (unsigned thread = 0; thread < THREADS; thread++)
        for (unsigned i = 0; i < SLOTS; i++)
            calm_free(slots[thread][i]);
    for (unsigned i = 0; i < TRADED; i++)
        calm_free(atomic_load(&traded[i]));
}

static void run(void)
{
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, slots[i]) != 0)
            stress_fail("pthread_create failed");
    fork_child();
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    check();
    release_all();
    calm_trim();
    check();
    printf("%llu tries, no address came to another site\n",
           (unsigned long long)(THREADS * (steps / 3) * 3));
}

int main(int argc, char **argv)
{
    struct arguments arguments = arguments_read(argc, argv, 1, 120000);
    seed = arguments.seed;
    steps = arguments.steps;
    arguments_repro(&arguments, seed);
    void *first = calm_malloc(1);
    base = ((uintptr_t)first & ~(uintptr_t)(UNIT - 1)) - covered / 2;
    calm_free(first);
    had = mmap(NULL, covered / UNIT * sizeof *had, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (had == MAP_FAILED)
        stress_fail("no address space for the oracle");
    run();
    return 0;
}
