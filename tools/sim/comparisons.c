/*
 * comparisons.c: writes what a policy decided and what the learned one would have.
 */
#include "comparisons.h"

#include "exec/policy.h"

bool comparisons_open(struct comparisons *log, const char *path)
{
    *log = (struct comparisons){.file = fopen(path, "w"), .every = 1};
    return log->file != NULL;
}

void comparisons_begin(struct comparisons *log, double load, uint64_t seed, uint64_t tasks)
{
    log->load = load;
    log->seed = seed;
    log->every = (tasks + COMPARISONS_MAX - 1) / COMPARISONS_MAX;
    log->seen = 0;
}

void comparisons_add(void *to, const struct comparison *comparison)
{
    struct comparisons *log = to;
    if (log->seen++ % log->every != 0)
        return;
    fprintf(log->file,
            "{\"load\": %g, \"seed\": %llu, \"at_ns\": %.0f, \"core\": %u, \"would\": %u, ",
            log->load, (unsigned long long)log->seed, comparison->at_ns, comparison->core,
            comparison->would);
    if (comparison->class != (uint32_t)POLICY_NO_CLASS)
        fprintf(log->file, "\"class\": %u, ", comparison->class);
    fprintf(log->file, "\"regret_ns\": %.4g}\n", (double)comparison->regret_ns);
}

bool comparisons_close(struct comparisons *log)
{
    bool is_whole = ferror(log->file) == 0;
    return fclose(log->file) == 0 && is_whole;
}
