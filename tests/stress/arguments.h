/*
 * arguments.h: what every stress program understands: --seed N (first seed), --seeds N (how many),
 * --steps N.
 *
 * Defaults are quick; CALM_STRESS_SEED and CALM_STRESS_SEEDS in the environment change them for a
 * whole test run.
 */
#ifndef CALM_STRESS_ARGUMENTS_H
#define CALM_STRESS_ARGUMENTS_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oracle.h"

struct arguments {
    const char *program;
    uint64_t seed;
    uint64_t seeds;
    uint64_t steps;
};

static inline uint64_t arguments_environment(const char *name, uint64_t standard)
{
    const char *words = getenv(name);
    return words == NULL ? standard : strtoull(words, NULL, 10);
}

static inline struct arguments arguments_read(int count, char **words, uint64_t seeds,
                                              uint64_t steps)
{
    struct arguments arguments = {.program = words[0],
                                  .seed = arguments_environment("CALM_STRESS_SEED", 1),
                                  .seeds = arguments_environment("CALM_STRESS_SEEDS", seeds),
                                  .steps = steps};
    for (int i = 1; i + 1 < count; i += 2) {
        uint64_t value = strtoull(words[i + 1], NULL, 10);
        if (strcmp(words[i], "--seed") == 0)
            arguments.seed = value;
        else if (strcmp(words[i], "--seeds") == 0)
            arguments.seeds = value;
        else if (strcmp(words[i], "--steps") == 0)
            arguments.steps = value;
        else
            exit((fprintf(stderr, "%s [--seed N] [--seeds N] [--steps N]\n", words[0]), 2));
    }
    return arguments;
}

/* From now on a failure names this seed. */
static inline void arguments_repro(const struct arguments *arguments, uint64_t seed)
{
    static char command[512];
    snprintf(command, sizeof command, "%s --seed %llu --seeds 1 --steps %llu", arguments->program,
             (unsigned long long)seed, (unsigned long long)arguments->steps);
    stress_repro = command;
}

#endif
