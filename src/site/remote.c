/*
 * remote.c: starts and stops the profiler for another process, and stops it when that process does
 * not come back.
 *
 * The other process may be killed before it asks for a stop. So each start has a lease, which the
 * process prolongs by asking again. A start by the program itself is never ended here.
 *
 * Owner: the thread that moved `taken` answers; docs/protocols/remote.md.
 * Design: docs/design/watching.md
 */
#include "site/remote.h"

#include "os/os.h"
#include "site/sample.h"

enum { LOOKS_A_CLOCK = 256 }; /* requests of a thread between two reads of the clock */

struct remote remote;

/* Ends a start from outside, unless the program has stopped or started the profiler since. */
static void stop_own(void)
{
    store(&remote.until_ms, 0, RELAXED);
    if (sample_starts() == load(&remote.start, RELAXED))
        sample_stop();
}

static bool is_ours(void)
{
    return load(&remote.until_ms, RELAXED) != 0 && sample_is_on() &&
           sample_starts() == load(&remote.start, RELAXED);
}

static enum remote_result start(uint64_t rate, uint64_t lease_ms)
{
    enum sample_error error = is_ours() ? SAMPLE_FINE : sample_start(rate, 0);
    switch (error) {
    case SAMPLE_FINE:
        store(&remote.start, sample_starts(), RELAXED);
        store(&remote.until_ms, os_clock_ms() + lease_ms, RELAXED);
        return REMOTE_STARTED;
    case SAMPLE_IS_ON: return REMOTE_WAS_ON;
    case SAMPLE_NO_MEMORY: return REMOTE_NO_MEMORY;
    case SAMPLE_BAD_RATE: break;
    }
    return REMOTE_BAD_RATE;
}

static void answer(uint32_t asked)
{
    uint64_t rate = load(&remote.rate_bytes, RELAXED);
    enum remote_result result = REMOTE_STOPPED;
    if (rate != 0)
        result = start(rate, load(&remote.lease_ms, RELAXED));
    else
        stop_own();
    site_refill(0, SITES); /* the other process has diverted the table */
    store(&remote.result, (uint32_t)result, RELAXED);
    store(&remote.answered, asked, RELEASE); /* R3 */
}

void remote_serve(void)
{
    static _Thread_local uint32_t looks;
    uint32_t asked = load(&remote.asked, ACQUIRE); /* R1 */
    uint32_t taken = load(&remote.taken, RELAXED);
    if (asked != taken && compare_swap(&remote.taken, &taken, asked, ACQUIRE, RELAXED)) /* R2 */
        answer(asked);
    uint64_t until = load(&remote.until_ms, RELAXED);
    if (until != 0 && ++looks % LOOKS_A_CLOCK == 0 && os_clock_ms() >= until)
        stop_own();
}

const struct watch_fact remote_facts[] = {
    FACT_AT("remote.request", remote),
    FACT_NUMBER("remote.rate", offsetof(struct remote, rate_bytes)),
    FACT_NUMBER("remote.lease_ms", offsetof(struct remote, lease_ms)),
    FACT_NUMBER("remote.asked", offsetof(struct remote, asked)),
    FACT_NUMBER("remote.taken", offsetof(struct remote, taken)),
    FACT_NUMBER("remote.answered", offsetof(struct remote, answered)),
    FACT_NUMBER("remote.result", offsetof(struct remote, result)),
    FACT_NUMBER("remote.until_ms", offsetof(struct remote, until_ms)),
    FACTS_END,
};
