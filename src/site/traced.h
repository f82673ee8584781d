/*
 * traced.h: tells tracers of samples as OpenTelemetry's eBPF profiler wants to hear of them, and
 * has requests sampled while one listens.
 *
 * The provider is `otel_memory`, with two probes: `alloc` (block, bytes asked for, bytes that the
 * sample stands for) and `free` (block). Each has a semaphore, which the kernel adds one to when a
 * tracer begins to listen and takes one from when it ends. While one is not 0 the profiler is on,
 * whoever else wants it. Design: docs/design/probes.md
 */
#ifndef CALM_SITE_TRACED_H
#define CALM_SITE_TRACED_H

#include "base/atomic.h"

union traced_semaphores {
    struct {
        uint16_t alloc, free; /* the kernel's to write */
    } each;
    _Atomic uint32_t both;
};

extern HIDDEN union traced_semaphores traced_semaphores;

void traced_alloc(const void *block, size_t bytes, uint64_t weight_bytes);
void traced_free(const void *block);

/* Whether somebody listens. One compare; for requests that no cache could serve. */
ALWAYS_INLINE bool traced_is_heard(void)
{
    return unlikely(load(&traced_semaphores.both, RELAXED) != 0);
}

/* Switches the profiler on if it is off. For any request while somebody listens; the heap has
 * started. */
void traced_attend(void);

/* Switches it off if nobody listens any more and nobody else wanted it. For each sample. */
void traced_look(void);

#endif
