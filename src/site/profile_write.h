/*
 * profile_write.h: writes the profile in a format that people's tools read.
 *
 * Any thread, several at a time; also from a signal handler. Nothing is allocated but a mapping for
 * as long as the call lasts, and no lock is taken here.
 */
#ifndef CALM_SITE_PROFILE_WRITE_H
#define CALM_SITE_PROFILE_WRITE_H

#include "site/profile.h"

enum profile_format { PROFILE_PPROF, PROFILE_HEAP_V2, PROFILE_COLLAPSED };

/* Where stacks and facts come from; tests have their own. */
struct profile_source {
    void (*visit)(void (*visit)(const struct profile_stack *, void *), void *context);
    struct profile_facts (*facts)(void);
};

/*
 * Writes what `source` has to `fd`. 0 or a positive errno value: ENOMEM without address space for
 * the tables, else what write said; then a part may have been written. A signal that interrupts the
 * write does not end it. A pipe that nobody reads raises SIGPIPE, as with any write.
 */
int profile_write_from(const struct profile_source *source, int fd, enum profile_format format);

static inline int profile_write(int fd, enum profile_format format)
{
    const struct profile_source source = {profile_visit, profile_facts};
    return profile_write_from(&source, fd, format);
}

#endif
