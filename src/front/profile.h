/*
 * profile.h: the profiler as the options and the program ask for it: on from the start, written at
 * exit and on a signal.
 */
#ifndef CALM_FRONT_PROFILE_H
#define CALM_FRONT_PROFILE_H

#include "front/options.h"

/* What options profile_kb and profile_fd ask for. While the heap starts. */
void profile_start_wanted(void);

/* Installs the handler for option profile_signal. When the library is loaded. */
void profile_at_load(void);

/* Writes the profile to option profile_fd. */
void profile_at_exit(void);

#endif
