/*
 * cohorts.c: sums the depots by cohort. Allocates nothing.
 *
 * Other threads work meanwhile: each number is exact at some moment, but not all at one moment. A
 * slab that changes its cohort takes its live blocks along at once; its cached blocks follow at
 * their next free or flush.
 *
 * Owner: the caller; each depot under its lock. Design: docs/design/watching.md
 */
#include "front/cohorts.h"

#include "core/depot.h"
#include "core/rows.h"
#include "front/stats.h"

/* The bytes of each row or cohort, from which the shown ones are chosen. */
struct weights {
    uint64_t bytes[ROW_LIMIT]; /* bytes live or in caches, plus 1; 0: it has no slab */
    uint16_t place[ROW_LIMIT]; /* its index in the output plus 1; 0: not shown           */
};

/* With sites separate, each row is a cohort (core/rows.h). */
static unsigned cohort_of(unsigned bin)
{
    return rows_are_separate ? bin_row(bin) : bin_row(bin) % COHORT_LIMIT;
}

static void add(struct calm_cohort *cohort, const struct depot *depot, const struct stats_bin *bin)
{
    size_t bytes = bin_bytes(depot->bin), cached = stats_cached(bin->cached_blocks);
    cohort->allocated_blocks += bin->taken_blocks;
    cohort->allocated_bytes += bin->taken_blocks * bytes;
    cohort->cached_blocks += cached;
    cohort->cached_bytes += cached * bytes;
    cohort->active_bytes += bin->slabs << CHUNK_SHIFT;
}

/* Sums the bytes of each cohort. Returns the number of cohorts with slabs. */
static size_t sum_bytes(struct weights *weights)
{
    size_t count = 0;
    for (struct depot *depot = depot_newest(); depot != NULL; depot = depot->below) {
        struct stats_bin bin = stats_read_bin(depot);
        uint64_t *bytes = &weights->bytes[cohort_of(depot->bin)];
        if (bin.slabs == 0)
            continue;
        count += *bytes == 0;
        *bytes += (*bytes == 0) + bin.taken_blocks * bin_bytes(depot->bin);
    }
    return count;
}

/* The heaviest cohort without a place. Pre: there is one. */
static unsigned heaviest(const struct weights *weights)
{
    unsigned best = ROW_LIMIT;
    for (unsigned i = 0; i < ROW_LIMIT; i++)
        if (weights->bytes[i] != 0 && weights->place[i] == 0 &&
            (best == ROW_LIMIT || weights->bytes[i] > weights->bytes[best]))
            best = i;
    return best;
}

size_t cohorts_read(struct calm_cohort *out, size_t capacity)
{
    struct weights weights = {0};
    size_t count = sum_bytes(&weights), shown = size_min(count, capacity);
    for (size_t i = 0; i < shown; i++) {
        unsigned cohort = heaviest(&weights);
        weights.place[cohort] = (uint16_t)(i + 1);
        out[i] = (struct calm_cohort){.cohort = cohort,
                                      .is_sampled = !rows_are_separate && cohort == COHORT_SAMPLED};
    }
    for (struct depot *depot = depot_newest(); depot != NULL; depot = depot->below) {
        unsigned place = weights.place[cohort_of(depot->bin)];
        struct stats_bin bin = stats_read_bin(depot);
        if (place != 0)
            add(&out[place - 1], depot, &bin);
    }
    return count;
}

void cohorts_add_json(struct text *text)
{
    struct calm_cohort cohorts[COHORTS_SHOWN];
    size_t count = size_min(cohorts_read(cohorts, COHORTS_SHOWN), COHORTS_SHOWN);
    text_add(text, "\"by_cohort\":[");
    for (size_t i = 0; i < count; i++) {
        text_add(text, i == 0 ? "{" : ",{");
        text_add_member(text, "cohort", cohorts[i].cohort);
        text_add_member(text, "allocated_blocks", cohorts[i].allocated_blocks);
        text_add_member(text, "allocated_bytes", cohorts[i].allocated_bytes);
        text_add_member(text, "cached_blocks", cohorts[i].cached_blocks);
        text_add_member(text, "cached_bytes", cohorts[i].cached_bytes);
        text_add_member(text, "active_bytes", cohorts[i].active_bytes);
        if (cohorts[i].is_sampled)
            text_add(text, ",\"is_sampled\":true");
        text_add_char(text, '}');
    }
    text_add_char(text, ']');
}
