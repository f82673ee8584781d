/*
 * oracle.c: see oracle.h. Uses the C library's malloc for itself, which is another allocator than
 * the one under test.
 */
#define _GNU_SOURCE

#include "oracle.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "calmalloc/calmalloc.h"

enum { PAGE = 4096, WHOLE_MAX = 4 * PAGE, SITES = 8, EXACT_MAX = 32 * 1024 };

const char *stress_repro = "";
_Atomic size_t stress_live_bytes;
static _Atomic size_t large_bytes; /* of all oracles, in blocks above EXACT_MAX */
_Atomic size_t stress_peak_bytes;

void stress_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("stress: ", stderr);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\nagain: %s\n", stress_repro);
    va_end(arguments);
    abort();
}

/* SplitMix64. */
uint64_t stress_random(uint64_t *state)
{
    uint64_t x = *state += 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

static size_t below(struct oracle *oracle, size_t limit)
{
    return (size_t)(stress_random(&oracle->random) % limit);
}

/* Each request comes from a call site of its own, as cohorts see it. */
#define SITE(number)                                                                               \
    static __attribute__((noinline)) void *malloc_at_##number(size_t size)                         \
    {                                                                                              \
        void *block = calm_malloc(size);                                                           \
        __asm__ volatile("" : "+r"(block));                                                        \
        return block;                                                                              \
    }
SITE(0)
SITE(1)
SITE(2)
SITE(3)
SITE(4)
SITE(5)
SITE(6)
SITE(7)

static void *(*const sites[SITES])(size_t) = {malloc_at_0, malloc_at_1, malloc_at_2, malloc_at_3,
                                              malloc_at_4, malloc_at_5, malloc_at_6, malloc_at_7};

static uint64_t word_at(uint64_t seed, size_t offset)
{
    return (seed ^ offset) * 0xD6E8FEB86659FD93u;
}

/* The runs of bytes of a block that hold the pattern: all of a small one; of a big one the ends and
 * some of each page. */
static size_t run_next(size_t filled, size_t offset, size_t *length)
{
    enum { PART = 64 };
    if (filled <= WHOLE_MAX) {
        *length = filled;
        return offset == 0 ? 0 : filled;
    }
    *length = offset + PAGE >= filled ? filled - offset : PART;
    return offset;
}

static void fill(const struct shadow *shadow)
{
    size_t length = 0;
    for (size_t at = run_next(shadow->filled, 0, &length); at < shadow->filled;) {
        size_t i = at;
        for (; i + 8 <= at + length; i += 8) {
            uint64_t word = word_at(shadow->seed, i);
            memcpy(shadow->start + i, &word, 8);
        }
        uint64_t last = word_at(shadow->seed, i);
        memcpy(shadow->start + i, &last, at + length - i);
        at = run_next(shadow->filled, at + PAGE, &length);
        if (shadow->filled <= WHOLE_MAX)
            break;
    }
}

/* Checks the pattern of the first `limit` bytes. */
static void check(const struct shadow *shadow, size_t limit, const char *when)
{
    size_t length = 0;
    for (size_t at = run_next(shadow->filled, 0, &length); at < shadow->filled;) {
        size_t end = at + length < limit ? at + length : limit;
        for (size_t i = at; i < end; i += 8) {
            uint64_t word = word_at(shadow->seed, i);
            if (memcmp(shadow->start + i, &word, end - i < 8 ? end - i : 8) != 0)
                stress_fail("%s: block %p of %zu bytes changed at offset %zu", when,
                            (void *)shadow->start, shadow->size, i);
        }
        at = run_next(shadow->filled, at + PAGE, &length);
        if (shadow->filled <= WHOLE_MAX || at >= limit)
            break;
    }
}

/* Of a block above 32 KiB, which may lie in one that is half as long again. */
static size_t large_part(size_t usable)
{
    return usable > EXACT_MAX ? usable : 0;
}

static void note_live(struct oracle *oracle, size_t more, size_t less)
{
    oracle->live_bytes += more - less;
    atomic_fetch_add(&large_bytes, large_part(more) - large_part(less));
    size_t live = atomic_fetch_add(&stress_live_bytes, more - less) + more - less;
    size_t peak = atomic_load(&stress_peak_bytes);
    while (live > peak && !atomic_compare_exchange_weak(&stress_peak_bytes, &peak, live))
        continue;
    if (oracle->live_bytes > oracle->peak_bytes)
        oracle->peak_bytes = oracle->live_bytes;
}

static size_t usable_of(const struct shadow *shadow)
{
    size_t usable = calm_usable_size(shadow->start);
    if (usable < shadow->size)
        stress_fail("block %p: asked for %zu, usable %zu", (void *)shadow->start, shadow->size,
                    usable);
    return usable;
}

/* Gives `shadow` a new pattern after its size became known. */
static void settle(struct oracle *oracle, struct shadow *shadow)
{
    size_t usable = usable_of(shadow);
    if ((uintptr_t)shadow->start % shadow->align != 0)
        stress_fail("block %p of %zu bytes is not aligned to %zu", (void *)shadow->start,
                    shadow->size, shadow->align);
    shadow->filled = below(oracle, 2) != 0 && usable <= WHOLE_MAX ? usable : shadow->size;
    shadow->seed = stress_random(&oracle->random) | 1;
    fill(shadow);
}

static bool is_refused(struct oracle *oracle, const void *block, const char *call, size_t size)
{
    if (block != NULL)
        return false;
    if (!oracle->may_fail)
        stress_fail("%s of %zu bytes gave NULL (step %llu)", call, size,
                    (unsigned long long)oracle->steps_done);
    if (errno != ENOMEM)
        stress_fail("%s of %zu bytes gave NULL and errno %d, not ENOMEM", call, size, errno);
    oracle->failures++;
    return true;
}

static void add(struct oracle *oracle, void *block, size_t size, size_t align, bool is_aligned)
{
    struct shadow *shadow = &oracle->blocks[oracle->count++];
    *shadow = (struct shadow){
        .start = block, .size = size, .align = align, .is_aligned = is_aligned};
    settle(oracle, shadow);
    note_live(oracle, usable_of(shadow), 0);
}

static size_t natural_align(size_t size)
{
    return size > 8 ? 16 : 8;
}

void oracle_malloc(struct oracle *oracle, size_t size, unsigned site)
{
    if (oracle->count == oracle->blocks_max)
        return;
    errno = 0;
    void *block = sites[site % SITES](size);
    if (is_refused(oracle, block, "malloc", size))
        return;
    size_t usable = calm_usable_size(block), good = calm_good_size(size);
    size_t longest = size > EXACT_MAX ? good + good / 2 : good;
    if (usable < good || usable > longest)
        stress_fail("malloc(%zu): usable %zu, good size %zu", size, usable, good);
    add(oracle, block, size, natural_align(size), false);
}

void oracle_calloc(struct oracle *oracle, size_t count, size_t size)
{
    if (oracle->count == oracle->blocks_max)
        return;
    errno = 0;
    unsigned char *block = calm_calloc(count, size);
    if (is_refused(oracle, block, "calloc", count * size))
        return;
    for (size_t i = 0; i < count * size; i++)
        if (block[i] != 0)
            stress_fail("calloc(%zu, %zu): byte %zu of %p is %u", count, size, i, (void *)block,
                        block[i]);
    add(oracle, block, count * size, natural_align(count * size), false);
}

void oracle_aligned(struct oracle *oracle, size_t align, size_t size)
{
    if (oracle->count == oracle->blocks_max)
        return;
    errno = 0;
    void *block = calm_aligned_alloc(align, size);
    if (!is_refused(oracle, block, "aligned_alloc", size))
        add(oracle, block, size, align, true);
}

static void drop(struct oracle *oracle, size_t index)
{
    oracle->blocks[index] = oracle->blocks[--oracle->count];
}

void oracle_realloc(struct oracle *oracle, size_t index, size_t size)
{
    struct shadow *shadow = &oracle->blocks[index];
    size_t usable = usable_of(shadow);
    check(shadow, shadow->filled, "before realloc");
    errno = 0;
    void *moved = calm_realloc(shadow->start, size);
    if (size == 0) {
        if (moved != NULL)
            stress_fail("realloc(%p, 0) gave %p", (void *)shadow->start, moved);
        note_live(oracle, 0, usable);
        drop(oracle, index);
        return;
    }
    if (is_refused(oracle, moved, "realloc", size)) {
        check(shadow, shadow->filled, "after a realloc that failed");
        return;
    }
    size_t kept = shadow->filled < size ? shadow->filled : size;
    shadow->start = moved;
    check(shadow, kept, "after realloc");
    shadow->size = size;
    shadow->align = natural_align(size);
    shadow->is_aligned = false;
    settle(oracle, shadow);
    note_live(oracle, usable_of(shadow), usable);
}

void oracle_free(struct oracle *oracle, size_t index, unsigned how)
{
    struct shadow *shadow = &oracle->blocks[index];
    check(shadow, shadow->filled, "before free");
    note_live(oracle, 0, usable_of(shadow));
    errno = 1234;
    if (how % 3 == 0)
        calm_free(shadow->start);
    else if (shadow->is_aligned)
        calm_free_aligned_sized(shadow->start, shadow->align, shadow->size);
    else
        calm_free_sized(shadow->start, shadow->size);
    if (errno != 1234)
        stress_fail("free changed errno to %d", errno);
    drop(oracle, index);
}

/* Moves a block if its slab is sparse. */
static void move(struct oracle *oracle, size_t index)
{
    struct shadow *shadow = &oracle->blocks[index];
    size_t usable = usable_of(shadow);
    shadow->start = calm_move(shadow->start);
    check(shadow, shadow->filled, "after a move");
    if (usable_of(shadow) != usable)
        stress_fail("a block of %zu bytes has %zu after a move", usable, usable_of(shadow));
}

/* Puts a block where another thread finds it, and takes over what lay there. */
static void trade(struct oracle *oracle, size_t index)
{
    struct shadow *sent = malloc(sizeof *sent);
    *sent = oracle->blocks[index];
    oracle->live_bytes -= usable_of(sent);
    drop(oracle, index);
    sent = atomic_exchange(&oracle->mailbox->slots[below(oracle, MAILBOX_SLOTS)], sent);
    if (sent == NULL)
        return;
    oracle->blocks[oracle->count++] = *sent;
    check(sent, sent->filled, "after it came from another thread");
    oracle->live_bytes += usable_of(sent);
    free(sent);
}

static size_t random_size(struct oracle *oracle)
{
    static const struct {
        unsigned percent;
        size_t max;
    } kinds[] = {{60, 1024}, {24, 32768}, {13, 1 << 20}, {100, (size_t)64 << 20}};
    size_t max = 0;
    size_t lot = below(oracle, 100);
    for (size_t i = 0; max == 0; i++) {
        if (lot < kinds[i].percent)
            max = kinds[i].max;
        lot -= lot < kinds[i].percent ? 0 : kinds[i].percent;
    }
    max = max < oracle->size_max ? max : oracle->size_max;
    size_t bits = below(oracle, 64 - (size_t)__builtin_clzll(max)) + 1; /* every magnitude alike */
    size_t size = below(oracle, (size_t)1 << bits);
    return size < max ? size : max;
}

void oracle_begin(struct oracle *oracle, uint64_t seed)
{
    *oracle = (struct oracle){.random = seed * 2 + 1,
                              .live_max = (size_t)96 << 20,
                              .size_max = (size_t)64 << 20,
                              .blocks_max = ORACLE_BLOCKS};
}

/* Many blocks of one size at once, and most of them back: what goes past the caches to the depots.
 */
static void burst(struct oracle *oracle)
{
    size_t size = oracle->is_storm ? 48 : below(oracle, 200), start = oracle->count;
    for (size_t i = below(oracle, oracle->is_storm ? ORACLE_BLOCKS : 600);
         i > 0 && oracle->count < oracle->blocks_max; i--)
        oracle_malloc(oracle, size, 0);
    size_t kept = start < 500 ? start + 50 : start - 50;
    bool is_in_order = !oracle->is_storm && below(oracle, 2) == 0;
    while (oracle->count > kept)
        oracle_free(oracle, is_in_order ? oracle->count - 1 : below(oracle, oracle->count), 0);
}

void oracle_step(struct oracle *oracle)
{
    if (oracle->is_storm || below(oracle, 128) == 0)
        burst(oracle);
    oracle->steps_done++;
    size_t lot = below(oracle, 100);
    bool is_full = oracle->count == oracle->blocks_max || oracle->live_bytes > oracle->live_max;
    bool is_shrinking = (oracle->steps_done >> 9 & 3) == 3; /* one phase in four gives back */
    if (oracle->count > 0 && (is_full || lot < (is_shrinking ? 60u : 30u))) {
        oracle_free(oracle, below(oracle, oracle->count), (unsigned)below(oracle, 3));
    } else if (oracle->count > 0 && lot < (is_shrinking ? 80u : 55u)) {
        size_t index = below(oracle, oracle->count);
        if (oracle->mailbox != NULL && lot % 4 != 0)
            trade(oracle, index);
        else
            oracle_realloc(oracle, index, below(oracle, 50) == 0 ? 0 : random_size(oracle) + 1);
    } else if (lot < (is_shrinking ? 86u : 68u)) {
        size_t count = below(oracle, 8) + 1;
        oracle_calloc(oracle, count, random_size(oracle) / count);
    } else if (lot < (is_shrinking ? 92u : 80u)) {
        size_t align = (size_t)1 << below(oracle, below(oracle, 20) == 0 ? 22 : 13);
        oracle_aligned(oracle, align, random_size(oracle));
    } else {
        oracle_malloc(oracle, random_size(oracle), (unsigned)below(oracle, SITES));
    }
    if (oracle->count > 0 && lot % 4 == 0)
        move(oracle, below(oracle, oracle->count));
    if (below(oracle, 4096) == 0)
        calm_trim();
    if (below(oracle, 4096) == 0)
        calm_page_out_cold(below(oracle, 2));
}

void oracle_steps(struct oracle *oracle, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        oracle_step(oracle);
}

void oracle_steps_watched(struct oracle *oracle, uint64_t count)
{
    enum { WATCHED = 100, SECONDS = 60 };
    for (uint64_t done = 0; done < count; done += WATCHED) {
        alarm(SECONDS);
        oracle_steps(oracle, count - done < WATCHED ? count - done : WATCHED);
    }
    alarm(SECONDS);
}

void oracle_check(const struct oracle *oracle)
{
    for (size_t i = 0; i < oracle->count; i++)
        check(&oracle->blocks[i], oracle->blocks[i].filled, "at the end of a phase");
}

void oracle_end(struct oracle *oracle)
{
    while (oracle->count > 0)
        oracle_free(oracle, oracle->count - 1, (unsigned)oracle->count);
}

void mailbox_end(struct mailbox *mailbox)
{
    for (size_t i = 0; i < MAILBOX_SLOTS; i++) {
        struct shadow *left = atomic_exchange(&mailbox->slots[i], NULL);
        if (left == NULL)
            continue;
        check(left, left->filled, "in the mailbox");
        atomic_fetch_sub(&stress_live_bytes, usable_of(left));
        atomic_fetch_sub(&large_bytes, large_part(usable_of(left)));
        calm_free(left->start);
        free(left);
    }
}

static int by_start(const void *a, const void *b)
{
    const struct shadow *left = *(const struct shadow *const *)a,
                        *right = *(const struct shadow *const *)b;
    return left->start < right->start ? -1 : left->start > right->start;
}

void oracle_check_apart(const struct oracle *const *oracles, size_t count,
                        const struct mailbox *mailbox)
{
    const struct shadow **all = calloc(count * ORACLE_BLOCKS + MAILBOX_SLOTS, sizeof *all);
    size_t used = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < oracles[i]->count; j++)
            all[used++] = &oracles[i]->blocks[j];
    for (size_t i = 0; mailbox != NULL && i < MAILBOX_SLOTS; i++)
        if (atomic_load(&mailbox->slots[i]) != NULL)
            all[used++] = atomic_load(&mailbox->slots[i]);
    qsort(all, used, sizeof *all, by_start);
    for (size_t i = 1; i < used; i++)
        if (all[i - 1]->start + usable_of(all[i - 1]) > all[i]->start)
            stress_fail("blocks %p of %zu and %p of %zu bytes overlap", (void *)all[i - 1]->start,
                        all[i - 1]->size, (void *)all[i]->start, all[i]->size);
    free(all);
}

/* A thread that purges holds a few blocks of a slab while it gives their pages back: statistics
 * then settle soon. They count large blocks as long as they are. */
static void read_settled(struct calm_stats *stats, size_t live_bytes)
{
    enum { TRIES = 1000, PAUSE_US = 1000 };
    size_t most = live_bytes + atomic_load(&large_bytes) / 2;
    for (unsigned tries = 0; tries < TRIES; tries++) {
        calm_stats_read(stats);
        size_t live = stats->allocated_bytes - stats->cached_bytes;
        if (live >= live_bytes && live <= most)
            return;
        usleep(PAUSE_US);
    }
    stress_fail("statistics say %zu bytes are live; they are %zu to %zu",
                stats->allocated_bytes - stats->cached_bytes, live_bytes, most);
}

void stress_check_heap(size_t live_bytes, size_t factor_percent, size_t bound)
{
    const char *verdict = calm_verify();
    if (verdict != NULL)
        stress_fail("calm_verify: %s", verdict);
    struct calm_stats stats;
    read_settled(&stats, live_bytes);
    if (stats.resident_bytes > live_bytes / 100 * factor_percent + bound)
        stress_fail("%zu bytes are resident for %zu live ones (allowed: %zu %% and %zu)",
                    stats.resident_bytes, live_bytes, factor_percent, bound);
    if (stats.cached_bytes > stats.cached_limit_bytes)
        stress_fail("caches and batches hold %zu bytes; %zu are allowed", stats.cached_bytes,
                    stats.cached_limit_bytes);
    if (stats.allocated_bytes > stats.active_bytes || stats.active_bytes > stats.mapped_bytes)
        stress_fail("allocated %zu, active %zu, mapped %zu are not in this order",
                    stats.allocated_bytes, stats.active_bytes, stats.mapped_bytes);
}
