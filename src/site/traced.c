/*
 * traced.c: the probes of OpenTelemetry's contract for memory, and the profiler while they are
 * listened to.
 *
 * A tracer has no hand in this process but the semaphores. So a request that no cache could serve
 * looks at them, and each sample does, as nothing else happens rarely enough and in every program.
 * A start by the program, by its options or by `calm heap` is never ended here.
 *
 * Owner: any thread, a word at a time. Design: docs/design/probes.md
 */
#include "site/traced.h"

#include "os/probe.h"
#include "site/sample.h"

/* What the contract proposes. */
enum { TRACED_RATE_BYTES = 512 * 1024 };

/* Its section is in the file, as the kernel finds a semaphore by its place there. */
__attribute__((section(".probes"))) union traced_semaphores traced_semaphores = {{0, 0}};

static _Atomic uint32_t start_of_ours; /* of the profiler's starts, the one for a tracer; 0: none */

/* Not inlined: each probe is one place. */
NOINLINE void traced_alloc(const void *block, size_t bytes, uint64_t weight_bytes)
{
    PROBE_CALL_3("otel_memory", "alloc", &traced_semaphores.each.alloc, block, bytes, weight_bytes);
}

NOINLINE void traced_free(const void *block)
{
    PROBE_CALL_1("otel_memory", "free", &traced_semaphores.each.free, block);
}

NOINLINE void traced_attend(void)
{
    if (!sample_is_on() && sample_start(TRACED_RATE_BYTES, 0) == SAMPLE_FINE)
        store(&start_of_ours, sample_starts(), RELAXED);
}

void traced_look(void)
{
    uint32_t ours = load(&start_of_ours, RELAXED);
    if (likely(ours == 0) || traced_is_heard())
        return;
    store(&start_of_ours, 0, RELAXED);
    if (sample_starts() == ours)
        sample_stop();
}
