/*
 * traced.h: reports samples to tracers as OpenTelemetry's eBPF profiler expects, and samples
 * requests while one listens.
 *
 * The provider is `otel_memory`, with two probes: `alloc` (block, bytes asked for, bytes that the
 * sample stands for) and `free` (block). Each has a semaphore, which the kernel increments when a
 * tracer begins to listen and decrements when it ends. While one is not 0 the profiler is on.
 * Design: docs/design/probes.md
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

/* Whether a tracer listens. One compare; for requests that no cache could serve. */
ALWAYS_INLINE bool traced_is_listened(void)
{
    return unlikely(load(&traced_semaphores.both, RELAXED) != 0);
}

/* Starts the profiler if it is off. For any request while a tracer listens; the heap has
 * started. */
void traced_start(void);

/* Stops the profiler if no tracer listens any more and the start was for one. For each sample. */
void traced_stop_unused(void);

#endif
