/*
 * sample.h: the profiler's switch, and the requests that it samples (from site/second.h).
 *
 * `site` is the site's address, `frame` where its frame begins, as in site/second.h, `offset` its
 * own cohort's. NULL: no memory; errno is not touched.
 */
#ifndef CALM_SITE_SAMPLE_H
#define CALM_SITE_SAMPLE_H

#include "base/facts.h"
#include "core/sampled.h"
#include "site/profile.h"
#include "site/seen.h"

enum sample_error { SAMPLE_FINE, SAMPLE_IS_ON, SAMPLE_NO_MEMORY, SAMPLE_BAD_RATE };

/*
 * Samples requests from now on, one in `rate` bytes; the draws follow from `seed`, or from
 * unpredictable bytes when it is 0. What earlier starts found is kept. Any thread.
 */
enum sample_error sample_start(uint64_t rate, uint64_t seed);

/* Samples no more requests; frees of sampled blocks still count. Any thread. */
void sample_stop(void);

/* How many starts there were. */
uint32_t sample_starts(void);

extern const struct watch_fact sample_facts[];

/* Of the profiler's tables. */
size_t sample_mapped_bytes(void);
size_t sample_resident_bytes(void);

enum sampling { SAMPLING_OFF, SAMPLING_ON, SAMPLING_CHANGES };
extern HIDDEN _Atomic uint32_t sample_state;

/* Whether requests are sampled now. */
ALWAYS_INLINE bool sample_is_on(void)
{
    return load(&sample_state, ACQUIRE) == SAMPLING_ON;
}

/* Counts a request's bytes down. Whether the calling thread is to sample it. */
bool sample_counts_down(size_t bytes);

ALWAYS_INLINE bool sample_is_reached(size_t bytes)
{
    return unlikely(sample_is_on()) && sample_counts_down(bytes);
}

/* A request of at most MEDIUM_MAX of a site of COHORT_FIRST, whose armed entry, at `entry_offset`,
 * is empty: counts what the entry served, samples this one if it is its turn, and arms the entry
 * again. NULL: it must be served otherwise. */
void *sample_armed(size_t bytes, bool is_zeroed, const void *site, const void *frame,
                   uint32_t entry_offset);

/* The same where nobody has to be asked: many requests are to pass, and as many blocks were freed.
 * NULL: sample_armed must be asked. */
void *sample_armed_again(uint32_t entry_offset);

/* Serves a request that is reached. NULL: no memory for a sample; an ordinary block may be had. */
void *sample_alloc(size_t bytes, size_t align, bool is_zeroed, const void *site, const void *frame,
                   uint32_t offset);

/* The free of a sampled block; others are ignored. */
void sample_free(void *block);

/* As heap_realloc, while requests are sampled. */
void *sample_realloc(void *block, size_t bytes, const void *site, const void *frame,
                     uint32_t offset);

#endif
