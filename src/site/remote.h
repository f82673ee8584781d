/*
 * remote.h: the profiler's switch for another process of the same user.
 *
 * That process writes a request into `remote`, and DIVERTED_OFFSET into the table of sites, so that
 * the next request for memory takes the slow path and finds it. The fast paths have no instruction
 * for this. Words: docs/protocols/remote.md.
 */
#ifndef CALM_SITE_REMOTE_H
#define CALM_SITE_REMOTE_H

#include "base/atomic.h"
#include "base/facts.h"

enum remote_result {
    REMOTE_NONE,
    REMOTE_STARTED,   /* the profiler is on until the lease ends or the next request   */
    REMOTE_WAS_ON,    /* the program itself has it on: nothing was changed             */
    REMOTE_STOPPED,   /* it is off, or on for the program itself                       */
    REMOTE_NO_MEMORY, /* it is off: there is no room for its tables                    */
    REMOTE_BAD_RATE,
};

struct remote {
    /* Written from outside: first these two, then `asked`. */
    _Alignas(CACHE_LINE_BYTES) _Atomic uint64_t rate_bytes; /* to start with; 0: stop     */
    _Atomic uint64_t lease_ms; /* from the answer until it is off by itself */
    _Atomic uint32_t asked;    /* number of the last request                          */

    /* Written here. */
    _Atomic uint32_t taken;    /* the last request that a thread began to answer       */
    _Atomic uint32_t answered; /* the last request answered; `result` is its answer    */
    _Atomic uint32_t result;   /* enum remote_result                                   */
    _Atomic uint32_t start;    /* number of the start made for the outside             */
    _Atomic uint64_t until_ms; /* when the lease ends, on os_clock_ms(); 0: no lease */
};
_Static_assert(sizeof(struct remote) == CACHE_LINE_BYTES, "one line, nobody else's");

extern HIDDEN struct remote remote;
extern const struct watch_fact remote_facts[];

/* Answers a request, or stops the profiler when the lease is over. Any thread, also in a signal
 * handler; does not wait. */
void remote_serve(void);

/* Called by requests on slow paths. Cost: three loads. */
ALWAYS_INLINE void remote_check(void)
{
    if (unlikely(load(&remote.asked, ACQUIRE) != load(&remote.taken, RELAXED) ||
                 load(&remote.until_ms, RELAXED) != 0))
        remote_serve();
}

#endif
