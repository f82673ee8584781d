/*
 * profile.h: the options' profiler: started with the heap, written at exit and on a signal.
 */
#ifndef CALM_FRONT_PROFILE_H
#define CALM_FRONT_PROFILE_H

#include "front/options.h"

/* Starts the profiler when option profile_kb says so, and records profile_fd's file. Called while
 * the heap starts. */
void profile_start_wanted(void);

/* Installs the handler for option profile_signal. Called when the library is loaded. */
void profile_at_load(void);

/* Writes the profile to option profile_fd, if the descriptor still refers to the recorded file. */
void profile_at_exit(void);

#endif
