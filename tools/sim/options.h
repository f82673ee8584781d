/*
 * options.h: the simulator's command line.
 */
#ifndef CALM_SIM_OPTIONS_H
#define CALM_SIM_OPTIONS_H

#include "engine.h"

struct sim_options {
    struct engine_options engine;
    const char *policy;
    const char *traffic;
    const char *then;
    double loads[32];
    unsigned load_count;
    uint64_t seeds; /* runs, with seed, seed + 1, ... */
    const char *trace;
    bool is_help;
    bool has_progress;
    bool has_timing; /* what depends on the machine is told, too */
};

/* Reads the command line into `options`. On a mistake returns a sentence, else NULL. */
const char *options_read(struct sim_options *options, int count, char **words);

void options_help(void);

#endif
