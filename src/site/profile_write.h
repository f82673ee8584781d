/*
 * profile_write.h: writes the profile in a common format.
 *
 * Any thread, several at a time; also from a signal handler. Allocates nothing but a mapping during
 * the call, and takes no lock.
 */
#ifndef CALM_SITE_PROFILE_WRITE_H
#define CALM_SITE_PROFILE_WRITE_H

#include "site/profile.h"

enum profile_format { PROFILE_PPROF, PROFILE_HEAP_V2, PROFILE_COLLAPSED };

/* Source of stacks and facts; tests have their own. */
struct profile_source {
    void (*visit)(void (*visit)(const struct profile_stack *, void *), void *context);
    struct profile_facts (*facts)(void);
};

/*
 * Writes the profile of `source` to `fd`. Returns 0 or a positive errno value: ENOMEM without
 * address space for the tables, else write's error; then a part may have been written. A signal
 * that interrupts the write does not end it. A pipe without a reader raises SIGPIPE, as with any
 * write.
 */
int profile_write_from(const struct profile_source *source, int fd, enum profile_format format);

static inline int profile_write(int fd, enum profile_format format)
{
    const struct profile_source source = {profile_visit, profile_facts};
    return profile_write_from(&source, fd, format);
}

#endif
