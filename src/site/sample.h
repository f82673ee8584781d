/*
 * sample.h: the profiler's switch, and the requests that it samples (from site/second.h).
 *
 * `site` and `frame` are as in site/second.h; `offset` is that of the site's own cohort. NULL means
 * no memory; errno is unchanged.
 */
#ifndef CALM_SITE_SAMPLE_H
#define CALM_SITE_SAMPLE_H

#include "base/facts.h"
#include "core/armed.h"
#include "site/follow.h"
#include "site/profile.h"
#include "site/seen.h"

enum sample_error { SAMPLE_FINE, SAMPLE_IS_ON, SAMPLE_NO_MEMORY, SAMPLE_BAD_RATE };

/* Samples requests from now on, one in `rate` bytes. The draws follow from `seed`, or from
 * unpredictable bytes when `seed` is 0. Samples of earlier starts are kept. Any thread. */
enum sample_error sample_start(uint64_t rate, uint64_t seed);

/* Stops sampling; frees of sampled blocks still count. Any thread. */
void sample_stop(void);

/* Number of starts so far. */
uint32_t sample_starts(void);

extern const struct watch_fact sample_facts[];

/* Sets of live samples, and ways for them. */
enum { LIVE_LOG2 = 12, LIVE_WAYS = FOLLOW_WAYS << LIVE_LOG2 };

/* Sizes of the profiler's tables. */
size_t sample_mapped_bytes(void);
size_t sample_resident_bytes(void);

enum sampling { SAMPLING_OFF, SAMPLING_ON, SAMPLING_CHANGES };
extern HIDDEN _Atomic uint32_t sample_state;

ALWAYS_INLINE bool sample_is_on(void)
{
    return load(&sample_state, ACQUIRE) == SAMPLING_ON;
}

/* In this range of rates a thread whose samples cost too much takes fewer. Other rates are kept. */
enum {
    SAMPLE_RATE_THINNED = 512 * 1024,
    SAMPLE_RATE_THINNED_MAX = 1 << 26, /* still a valid rate after all doublings */
};

/* Subtracts a request's bytes from the countdown. True: the calling thread samples the request. */
bool sample_counts_down(size_t bytes);

/* Streams of requests, each counted by bytes. */
enum { STREAM_MEDIUM, STREAM_LARGE, STREAM_COUNT };

/* Bytes that may pass in a stream before the profiler must inspect a request, by armed cohort. Only
 * one cohort is in use, so a new start finds nothing of the last one. Negative for a moment only.
 * Two arrays, so that each counter is one index away. */
extern HIDDEN _Thread_local int64_t sample_medium_left[COHORT_FIRST];
extern HIDDEN _Thread_local int64_t sample_large_left[COHORT_FIRST];

ALWAYS_INLINE unsigned stream_of(size_t bytes)
{
    return bytes > MEDIUM_MAX ? STREAM_LARGE : STREAM_MEDIUM;
}

/* Counter of the cohort at `offset`, which is below OWN_OFFSET_FIRST. */
ALWAYS_INLINE int64_t *sample_left(uint32_t offset, unsigned stream)
{
    uint32_t cohort = offset / COHORT_ENTRY_BYTES;
    return stream == STREAM_LARGE ? &sample_large_left[cohort] : &sample_medium_left[cohort];
}

/* Subtracts a request whose site has `offset` in the table of sites. False, as always for
 * DIVERTED_OFFSET: call sample_adds_back(), then sample_is_reached(). Pre: bytes <= PTRDIFF_MAX.
 * Cost: one subtraction. */
ALWAYS_INLINE bool sample_passes(size_t bytes, uint32_t offset, unsigned stream)
{
    return likely((*sample_left(offset, stream) -= (int64_t)bytes) >= 0);
}

ALWAYS_INLINE void sample_adds_back(size_t bytes, uint32_t offset)
{
    *sample_left(offset, stream_of(bytes)) += (int64_t)bytes;
}

/* May end a long interval. For a request above ARMED_MAX that passed and missed its cache: it is
 * costly anyway. */
void sample_look(size_t bytes);

ALWAYS_INLINE bool sample_is_reached(size_t bytes)
{
    return unlikely(sample_is_on()) && sample_counts_down(bytes);
}

/* Request of at most ARMED_MAX bytes of a site of COHORT_FIRST. Its armed entry, at `entry_offset`,
 * is empty; its class's own entry is at `own_offset`. Counts the requests that the entry served,
 * samples this one if its turn has come, and arms the entry again. NULL: serve the request
 * otherwise. */
void *sample_armed(size_t bytes, bool is_zeroed, const void *site, const void *frame,
                   uint32_t entry_offset, uint32_t own_offset);

/* Set while a sample is taken, so that a signal handler's requests are not sampled. */
extern HIDDEN _Thread_local bool sample_is_inside;

/* Changes with each start, and in a fork's child: draws of an earlier one are not used. */
extern HIDDEN _Atomic uint32_t sample_start_count;

/* True: enough blocks were freed, and as many requests may pass. They are counted, and
 * armed_swap() must serve the request from the calling thread's cache. */
ALWAYS_INLINE bool sample_counts_quick(struct cache *cache, uint32_t entry_offset,
                                       uint32_t own_offset)
{
    return likely(cache->armed_start == load(&sample_start_count, RELAXED)) &&
           likely(armed_counts_quick(cache, entry_offset, own_offset));
}

/* Serves a request that reached its sample. NULL: no memory for a sample; an ordinary block may
 * still be available. */
void *sample_alloc(size_t bytes, size_t align, bool is_zeroed, const void *site, const void *frame,
                   uint32_t offset);

/* Ends the sample of a freed block. Ignores blocks without a sample. */
void sample_free(void *block);

/* As heap_realloc(), while requests are sampled. */
void *sample_realloc(void *block, size_t bytes, const void *site, const void *frame,
                     uint32_t offset);

#endif
