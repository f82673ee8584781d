/*
 * sample.h: the profiler's switch, and the requests that it samples (from site/second.h).
 *
 * `site` is the site's address, `frame` where its frame begins, as in site/second.h, `offset` its
 * own cohort's. NULL: no memory; errno is not touched.
 */
#ifndef CALM_SITE_SAMPLE_H
#define CALM_SITE_SAMPLE_H

#include "base/facts.h"
#include "core/armed.h"
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

/* At such rates a thread whose samples cost too much takes fewer; finer ones are kept to. */
enum {
    SAMPLE_RATE_THINNED = 512 * 1024,
    SAMPLE_RATE_THINNED_MAX = 1 << 26, /* with all doublings still a rate */
};

/* Counts a request's bytes down. Whether the calling thread is to sample it. */
bool sample_counts_down(size_t bytes);

/* Requests that are counted by their bytes. */
enum { STREAM_MEDIUM, STREAM_LARGE, STREAM_COUNT };

/* What may pass in a stream before somebody has to look, by armed cohort: one is in use, so that a
 * new start finds nothing of the last. Below zero for a moment only. Apart, so that each place is
 * one index away. */
extern HIDDEN _Thread_local int64_t sample_medium_left[COHORT_FIRST];
extern HIDDEN _Thread_local int64_t sample_large_left[COHORT_FIRST];

ALWAYS_INLINE unsigned stream_of(size_t bytes)
{
    return bytes > MEDIUM_MAX ? STREAM_LARGE : STREAM_MEDIUM;
}

/* Of the cohort at `offset`, below OWN_OFFSET_FIRST. */
ALWAYS_INLINE int64_t *sample_left(uint32_t offset, unsigned stream)
{
    uint32_t cohort = offset / COHORT_ENTRY_BYTES;
    return stream == STREAM_LARGE ? &sample_large_left[cohort] : &sample_medium_left[cohort];
}

/* Counts a request down for which the table of sites has `offset`. False: it is to be taken back,
 * and goes to sample_is_reached; for DIVERTED_OFFSET always. Pre: bytes <= PTRDIFF_MAX. Cost: one
 * subtraction. */
ALWAYS_INLINE bool sample_passes(size_t bytes, uint32_t offset, unsigned stream)
{
    return likely((*sample_left(offset, stream) -= (int64_t)bytes) >= 0);
}

ALWAYS_INLINE void sample_takes_back(size_t bytes, uint32_t offset)
{
    *sample_left(offset, stream_of(bytes)) += (int64_t)bytes;
}

/* After a request above ARMED_MAX that passed, and that costs much anyway: may end a long interval.
 */
void sample_look(size_t bytes);

ALWAYS_INLINE bool sample_is_reached(size_t bytes)
{
    return unlikely(sample_is_on()) && sample_counts_down(bytes);
}

/* A request of at most ARMED_MAX of a site of COHORT_FIRST, whose armed entry, at `entry_offset`,
 * is empty, and whose class's own is at `own_offset`: counts what the entry served, samples this
 * one if it is its turn, and arms the entry again. NULL: it must be served otherwise. */
void *sample_armed(size_t bytes, bool is_zeroed, const void *site, const void *frame,
                   uint32_t entry_offset, uint32_t own_offset);

/* While a sample is taken: a signal handler's requests are then not sampled. */
extern HIDDEN _Thread_local bool sample_is_inside;

/* How many starts there were. */
extern HIDDEN _Atomic uint32_t sample_start_count;

/* Whether such a request may be served by armed_change() of the calling thread's cache, as many
 * requests are to pass, and as many blocks were freed; then they are counted. */
ALWAYS_INLINE bool sample_counts_quick(struct cache *cache, uint32_t entry_offset,
                                       uint32_t own_offset)
{
    return likely(cache->armed_start == load(&sample_start_count, RELAXED)) &&
           likely(armed_counts_quick(cache, entry_offset, own_offset));
}

/* Serves a request that is reached. NULL: no memory for a sample; an ordinary block may be had. */
void *sample_alloc(size_t bytes, size_t align, bool is_zeroed, const void *site, const void *frame,
                   uint32_t offset);

/* The free of a sampled block; others are ignored. */
void sample_free(void *block);

/* As heap_realloc, while requests are sampled. */
void *sample_realloc(void *block, size_t bytes, const void *site, const void *frame,
                     uint32_t offset);

#endif
