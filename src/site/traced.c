/*
 * traced.c: the probes of OpenTelemetry's contract for memory, and the profiler while a tracer
 * listens.
 *
 * A tracer controls nothing in this process but the semaphores. So each request that no cache could
 * serve reads them, and each sample does: nothing else happens rarely enough and in every program.
 * A start by the program, by its options or by `calm heap` is never ended here.
 *
 * Owner: any thread, a word at a time. Design: docs/design/probes.md
 */
#include "site/traced.h"

#include "os/probe.h"
#include "site/sample.h"

/* Rate that the contract proposes. */
enum { TRACED_RATE_BYTES = 512 * 1024 };

/* In a section of the file: the kernel finds a semaphore by its file offset. */
__attribute__((section(".probes"))) union traced_semaphores traced_semaphores = {{0, 0}};

static _Atomic uint32_t tracer_start; /* number of the start made for a tracer; 0: none */

/* Not inlined: each probe is one place. */
NOINLINE void traced_alloc(const void *block, size_t bytes, uint64_t weight_bytes)
{
    PROBE_CALL_3("otel_memory", "alloc", &traced_semaphores.each.alloc, block, bytes, weight_bytes);
}

NOINLINE void traced_free(const void *block)
{
    PROBE_CALL_1("otel_memory", "free", &traced_semaphores.each.free, block);
}

NOINLINE void traced_start(void)
{
    if (!sample_is_on() && sample_start(TRACED_RATE_BYTES, 0) == SAMPLE_FINE)
        store(&tracer_start, sample_starts(), RELAXED);
}

void traced_stop_unused(void)
{
    uint32_t ours = load(&tracer_start, RELAXED);
    if (likely(ours == 0) || traced_is_listened())
        return;
    store(&tracer_start, 0, RELAXED);
    if (sample_starts() == ours)
        sample_stop();
}
