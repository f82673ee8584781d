/*
 * cohorts.c: adds depots up by cohort. Allocates nothing.
 *
 * Numbers are read while others work, so they are each exact at some moment, not all at the same
 * one. A slab that moves to another cohort takes its live blocks along at once; what a cache holds
 * of them follows when it is freed again or flushed.
 *
 * Owner: the caller; each depot under its lock. Design: docs/design/watching.md
 */
#include "front/cohorts.h"

#include "core/depot.h"
#include "core/sampled.h"
#include "front/stats.h"

static void add(struct calm_cohort *cohort, struct depot *depot)
{
    struct stats_bin bin = stats_read_bin(depot);
    size_t bytes = bin_bytes(depot->bin);
    cohort->allocated_blocks += bin.taken_blocks;
    cohort->allocated_bytes += bin.taken_blocks * bytes;
    cohort->cached_blocks += bin.cached_blocks;
    cohort->cached_bytes += bin.cached_blocks * bytes;
    cohort->active_bytes += bin.slabs << UNIT_SHIFT;
}

static unsigned cohort_of(unsigned bin)
{
    return bin_row(bin) % COHORT_LIMIT;
}

static bool holds_more(const struct calm_cohort *a, const struct calm_cohort *b)
{
    if (a->allocated_bytes != b->allocated_bytes)
        return a->allocated_bytes > b->allocated_bytes;
    return a->active_bytes > b->active_bytes;
}

/* By insertion: there are few. */
static void sort(struct calm_cohort *cohorts, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        struct calm_cohort moving = cohorts[i];
        size_t at = i;
        for (; at > 0 && holds_more(&moving, &cohorts[at - 1]); at--)
            cohorts[at] = cohorts[at - 1];
        cohorts[at] = moving;
    }
}

size_t cohorts_read(struct calm_cohort *out, size_t capacity)
{
    struct calm_cohort all[COHORT_LIMIT];
    for (unsigned i = 0; i < COHORT_LIMIT; i++)
        all[i] = (struct calm_cohort){.cohort = i, .is_sampled = i == COHORT_SAMPLED};
    for (struct depot *depot = depot_newest(); depot != NULL; depot = depot->below)
        add(&all[cohort_of(depot->bin)], depot);
    sort(all, COHORT_LIMIT);
    size_t count = 0;
    while (count < COHORT_LIMIT && all[count].active_bytes > 0)
        count++;
    for (size_t i = 0; i < size_min(count, capacity); i++)
        out[i] = all[i];
    return count;
}

static void add_number(struct text *text, const char *name, uint64_t value)
{
    text_format(text, ",\"%s\":", name);
    text_add_number(text, value);
}

void cohorts_add_json(struct text *text)
{
    struct calm_cohort cohorts[COHORTS_SHOWN];
    size_t count = size_min(cohorts_read(cohorts, COHORTS_SHOWN), COHORTS_SHOWN);
    text_add(text, "\"by_cohort\":[");
    for (size_t i = 0; i < count; i++) {
        text_format(text, "%s{\"cohort\":%u", i == 0 ? "" : ",", cohorts[i].cohort);
        add_number(text, "allocated_blocks", cohorts[i].allocated_blocks);
        add_number(text, "allocated_bytes", cohorts[i].allocated_bytes);
        add_number(text, "cached_blocks", cohorts[i].cached_blocks);
        add_number(text, "cached_bytes", cohorts[i].cached_bytes);
        add_number(text, "active_bytes", cohorts[i].active_bytes);
        if (cohorts[i].is_sampled)
            text_add(text, ",\"is_sampled\":true");
        text_add_char(text, '}');
    }
    text_add_char(text, ']');
}
