/*
 * comparisons.h: the log of a counterfactual run: a line of JSON for a decision, in a file.
 */
#ifndef CALM_SIM_COMPARISONS_H
#define CALM_SIM_COMPARISONS_H

#include <stdio.h>

#include "engine.h"

/* Lines of one run at most: of a longer one every second decision is told, or every third, ... */
enum { COMPARISONS_MAX = 1000000 };

struct comparisons {
    FILE *file;
    double load;
    uint64_t seed;
    uint64_t every, seen;
};

/* False: the file cannot be written. */
bool comparisons_open(struct comparisons *log, const char *path);

/* From here on decisions are those of a run with `tasks` tasks that count. */
void comparisons_begin(struct comparisons *log, double load, uint64_t seed, uint64_t tasks);

/* An on_comparison; `to` is a struct comparisons. */
void comparisons_add(void *to, const struct comparison *comparison);

/* False: not all of it could be written. */
bool comparisons_close(struct comparisons *log);

#endif
