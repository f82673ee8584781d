/*
 * written.h: what is resident beside the bytes of live blocks, sampled while a workload goes on.
 *
 * Where every byte of a block is written, resident memory cannot be less than what is live: what is
 * above it is the allocator's. The clock stands still while a sample is taken.
 */
#ifndef CALM_BENCH_WRITTEN_H
#define CALM_BENCH_WRITTEN_H

#include "slots.h"

#include <sys/resource.h>

enum { HELD_SAMPLES = 32 };

static struct {
    double sum;
    double highest;
    double live_kib;
    uint64_t faults;
    unsigned count;
} held;

static inline uint64_t page_faults(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_minflt + (uint64_t)usage.ru_majflt;
}

static inline void held_begin(void)
{
    read_memory();
    held.faults = page_faults();
    start_clock();
}

static inline void held_sample(uint64_t live_bytes)
{
    stop_clock();
    double over = (double)read_memory().resident_kib * 1024 / (double)live_bytes;
    held.sum += over;
    held.highest = over > held.highest ? over : held.highest;
    held.live_kib += (double)live_bytes / 1024;
    held.count++;
    start_clock();
}

/* Samples after the steps of `count` that end a part of HELD_SAMPLES. */
static inline void held_step(uint64_t step, uint64_t count, uint64_t live_bytes)
{
    uint64_t every = count < HELD_SAMPLES ? 1 : count / HELD_SAMPLES;
    if ((step + 1) % every == 0)
        held_sample(live_bytes);
}

/* Stops the clock. */
static inline void held_end(void)
{
    stop_clock();
    held.faults = page_faults() - held.faults;
}

/* Adds the mean and the highest of the samples, what was live on average, and the page faults. */
static inline void held_result(void)
{
    if (held.count == 0)
        fail("nothing was sampled");
    result_number("resident_over_live", held.sum / held.count);
    result_number("highest_over_live", held.highest);
    result_number("live_kib", held.live_kib / held.count);
    result_number("page_faults", (double)held.faults);
}

/* A length from `least` to `most`, a multiple of 16, as likely from one doubling as from another.
 */
static inline uint32_t draw_doubling(uint64_t *random, uint32_t least, uint32_t most)
{
    uint32_t doublings = 0;
    while (doublings < 31 && (uint64_t)least << (doublings + 1) <= most)
        doublings++;
    uint32_t begin = doublings == 0 ? least : least << random_below(random, doublings);
    uint32_t bytes = (begin + random_below(random, begin)) & ~15u;
    return bytes < most ? bytes : most;
}

#endif
