/*
 * lifetime.c: orders sites by the lifetime of their blocks, and cuts the order into cohorts.
 *
 * Most followed blocks are still live when a decision is due, so lifetimes themselves say little.
 * The comparison is of deaths: a site's, and those if its blocks had died as all sites' did in the
 * same stretch of time (the log-rank test of survival analysis). So a stretch without frees says
 * nothing about any site.
 *
 * A cut must be likely (two rates explain the deaths better than one), large (a factor) and worth
 * its price: pages that long-lived blocks would otherwise hold among short-lived ones, less the
 * pages that one more cohort leaves partly used. An existing cut needs less, so that sites do not
 * flap.
 *
 * Owner: nobody; no state. Design: docs/design/learned.md
 */
#include "site/lifetime.h"

#include "base/bits.h"
#include "core/class.h"

enum {
    KINDS_MAX = 2 * LIFETIME_COHORTS_MAX,
    PAGE_BYTES = 4096,
    COST_BYTES = 2 * PAGE_BYTES, /* of one more cohort, for each class that both sides use */
    MOVE_SHARE = 16, /* of the bytes that move: as much lies free before slabs are lent */
    ONE = 1 << LIFETIME_LOG_BITS, /* of logarithms and deaths                   */
    FADE_KEEPS = 15,
    FADE_OF = 16,        /* of old values, at each decision */
    RATIO_NEW = 2 * ONE, /* four times the lifetime */
    RATIO_KEPT = 1 * ONE,
    GAIN_NEW = 9 * ONE, /* 2^9 times as likely as chance; docs/decisions/sites.md */
    GAIN_KEPT = 3 * ONE,
};

/* Sums over some sites. */
struct sum {
    uint64_t sites, expected, deaths, live_blocks, live_bytes, hole_bytes, classes;
};

struct segment {
    size_t first, end; /* in the order */
};

struct cut {
    size_t at; /* the first site of the right side; 0: none */
    int64_t gain;
};

int32_t lifetime_log2(uint64_t value)
{
    unsigned whole = 63 - (unsigned)__builtin_clzll(value | 1);
    uint32_t part = (uint32_t)(value << (63 - whole) >> (63 - LIFETIME_LOG_BITS)) & (ONE - 1);
    /* log2(1 + x) is x plus a bow of at most 0.086. */
    uint32_t bow = (uint32_t)((uint64_t)part * (ONE - part) >> LIFETIME_LOG_BITS);
    return (int32_t)((whole << LIFETIME_LOG_BITS) + part + (bow * 11 >> 5));
}

/* Log2 of a lifetime over all sites'. Half a death is added, so that 0 deaths have a logarithm. */
static int32_t log_relative(uint64_t expected, uint64_t deaths)
{
    return lifetime_log2(expected + ONE / 2) - lifetime_log2(deaths + ONE / 2);
}

static bool has_samples(const struct lifetime_site *site)
{
    return site->samples >= LIFETIME_SAMPLES_MIN;
}

/* Adds the new input to the kept values, which fade. */
static void observe(struct lifetime_site *sites, size_t count)
{
    uint64_t exposure = 0, deaths = 0;
    for (size_t i = 0; i < count; i++) {
        exposure += sites[i].exposure_new;
        deaths += sites[i].deaths_new;
    }
    for (size_t i = 0; i < count; i++) {
        struct lifetime_site *site = &sites[i];
        uint64_t expected = exposure == 0
                                ? site->deaths_new * ONE
                                : deaths * ONE / exposure * site->exposure_new +
                                      deaths * ONE % exposure * site->exposure_new / exposure;
        site->exposure = site->exposure * FADE_KEEPS / FADE_OF + site->exposure_new * ONE;
        site->deaths = site->deaths * FADE_KEEPS / FADE_OF + site->deaths_new * ONE;
        site->expected = site->expected * FADE_KEEPS / FADE_OF + expected;
    }
}

/* Estimates the mean lifetime, and the live blocks: as many as come in a lifetime, or in the site's
 * age if that is shorter. */
static void estimate(struct lifetime_site *site)
{
    site->lifetime = site->exposure / (site->deaths / ONE + (site->deaths < ONE)) / ONE;
    site->live_blocks = site->rate * size_min(site->lifetime, site->age) / LIFETIME_RATE;
    site->log_relative = log_relative(site->expected, site->deaths);
}

static void add(struct sum *sum, const struct lifetime_site *site)
{
    sum->sites++;
    sum->expected += site->expected;
    sum->deaths += site->deaths;
    sum->live_blocks += site->live_blocks;
    sum->live_bytes += site->live_blocks * site->bytes;
    sum->hole_bytes += site->live_blocks * (PAGE_BYTES - size_min(site->bytes, PAGE_BYTES));
    sum->classes |= site->classes;
}

static struct sum minus(const struct sum *all, const struct sum *part)
{
    return (struct sum){
        .sites = all->sites - part->sites,
        .expected = all->expected - part->expected,
        .deaths = all->deaths - part->deaths,
    };
}

/* Log2 of the likelihood of the deaths, at the rate that makes it greatest. */
static int64_t likelihood(const struct sum *sum)
{
    if (sum->deaths == 0)
        return 0;
    int64_t rate = lifetime_log2(sum->deaths) - lifetime_log2(sum->expected + 1);
    return (int64_t)(sum->deaths / ONE) * rate;
}

/* Live bytes of some classes, if every class has equally many blocks. */
static uint64_t bytes_in(const struct sum *sum, uint64_t classes)
{
    uint64_t bytes = 0;
    for (uint64_t left = classes; left != 0; left &= left - 1)
        bytes += class_facts[bit_lowest(left)].bytes;
    return size_min(sum->live_blocks / bit_count(sum->classes) * bytes, sum->live_bytes);
}

/* Whether separate cohorts for shorter- and longer-lived blocks save more than they cost. They save
 * the pages that the latter would hold, at most the bytes that the former leave. Classes never
 * share a page. The lighter side moves, unless the cut exists. */
static bool is_worth(const struct sum *shorter, const struct sum *longer, bool is_there)
{
    uint64_t shared = shorter->classes & longer->classes;
    if (shared == 0)
        return false;
    uint64_t move = is_there ? 0 : size_min(shorter->live_bytes, longer->live_bytes) / MOVE_SHARE;
    return size_min(longer->hole_bytes, bytes_in(shorter, shared)) >
           bit_count(shared) * (uint64_t)COST_BYTES + move;
}

static int64_t times_log2(uint64_t value)
{
    return value == 0 ? 0 : (int64_t)value * lifetime_log2(value);
}

/* The order follows the observations, so a cut looks likely by chance alone: as likely as there are
 * ways to choose the left sites. Log2 of an upper bound of these ways. */
static int64_t chance(uint64_t left, uint64_t right)
{
    return times_log2(left + right) - times_log2(left) - times_log2(right);
}

/* Gain of a cut beyond chance; 0: the cut is not to be made. */
static int64_t gain_of(const struct sum *all, const struct sum *left, const struct sum *right,
                       bool is_there)
{
    int32_t ratio = log_relative(right->expected, right->deaths) -
                    log_relative(left->expected, left->deaths);
    if (ratio < (is_there ? RATIO_KEPT : RATIO_NEW))
        return 0;
    int64_t gain = likelihood(left) + likelihood(right) - likelihood(all) -
                   chance(left->sites, right->sites) / (is_there ? 2 : 1);
    return gain >= (is_there ? GAIN_KEPT : GAIN_NEW) ? gain : 0;
}

static struct sum sum_of(const struct lifetime_site *sites, const uint16_t *order,
                         struct segment segment)
{
    struct sum sum = {0};
    for (size_t i = segment.first; i < segment.end; i++)
        add(&sum, &sites[order[i]]);
    return sum;
}

/* Best cut of a segment, worth its price or not. */
static struct cut best_cut(const struct lifetime_site *sites, const uint16_t *order,
                           struct segment segment)
{
    struct sum all = sum_of(sites, order, segment), left = {0};
    struct cut best = {0, 0};
    for (size_t i = segment.first + 1; i < segment.end; i++) {
        add(&left, &sites[order[i - 1]]);
        struct sum right = minus(&all, &left);
        bool is_there = sites[order[i - 1]].cohort != sites[order[i]].cohort;
        int64_t gain = gain_of(&all, &left, &right, is_there);
        if (gain > best.gain)
            best = (struct cut){i, gain};
    }
    return best;
}

/* Cuts `count` ordered sites into kinds, the best cut first; the kinds stay in order. Returns their
 * number. */
static size_t cut_all(const struct lifetime_site *sites, const uint16_t *order, size_t count,
                      struct segment *kinds)
{
    struct cut cuts[KINDS_MAX];
    size_t parts = 1;
    kinds[0] = (struct segment){0, count};
    cuts[0] = best_cut(sites, order, kinds[0]);
    while (parts < KINDS_MAX) {
        size_t best = 0;
        for (size_t i = 1; i < parts; i++)
            best = cuts[i].gain > cuts[best].gain ? i : best;
        if (cuts[best].gain == 0)
            break;
        for (size_t i = parts++; i > best + 1; i--) {
            kinds[i] = kinds[i - 1];
            cuts[i] = cuts[i - 1];
        }
        kinds[best + 1] = (struct segment){cuts[best].at, kinds[best].end};
        kinds[best].end = cuts[best].at;
        cuts[best + 1] = best_cut(sites, order, kinds[best + 1]);
        cuts[best] = best_cut(sites, order, kinds[best]);
    }
    return parts;
}

/* Joins kinds whose separation is not worth its price, and those beyond LIFETIME_COHORTS_MAX.
 * Returns their number. */
static size_t join(const struct lifetime_site *sites, const uint16_t *order, struct segment *kinds,
                   size_t parts)
{
    size_t kept = 1;
    for (size_t i = 1; i < parts; i++) {
        struct sum shorter = sum_of(sites, order, kinds[kept - 1]);
        struct sum longer = sum_of(sites, order, kinds[i]);
        bool is_there = sites[order[kinds[i].first - 1]].cohort !=
                        sites[order[kinds[i].first]].cohort;
        if (kept < LIFETIME_COHORTS_MAX && is_worth(&shorter, &longer, is_there))
            kinds[kept++] = kinds[i];
        else
            kinds[kept - 1].end = kinds[i].end;
    }
    return kept;
}

static bool is_before(const struct lifetime_site *sites, uint16_t a, uint16_t b)
{
    int32_t left = sites[a].log_relative, right = sites[b].log_relative;
    return left != right ? left < right : a < b;
}

static void sift(const struct lifetime_site *sites, uint16_t *heap, size_t root, size_t count)
{
    for (size_t child = 2 * root + 1; child < count; child = 2 * root + 1) {
        if (child + 1 < count && is_before(sites, heap[child], heap[child + 1]))
            child++;
        if (!is_before(sites, heap[root], heap[child]))
            return;
        uint16_t moved = heap[root];
        heap[root] = heap[child];
        heap[child] = moved;
        root = child;
    }
}

/* Enters the sites with enough samples, and orders them by lifetime: heap sort. */
static size_t order_sites(struct lifetime_site *sites, size_t count, uint16_t *order)
{
    size_t ranked = 0;
    for (size_t i = 0; i < count; i++) {
        estimate(&sites[i]);
        if (has_samples(&sites[i]))
            order[ranked++] = (uint16_t)i;
    }
    for (size_t root = ranked / 2; root-- > 0;)
        sift(sites, order, root, ranked);
    for (size_t left = ranked; left-- > 1;) {
        uint16_t last = order[left];
        order[left] = order[0];
        order[0] = last;
        sift(sites, order, 0, left);
    }
    return ranked;
}

/* Gives each segment the cohort that most of its live bytes have, the heaviest claim first, so that
 * the fewest bytes change cohort. */
static void name_segments(const struct lifetime_site *sites, const uint16_t *order,
                          const struct segment *segments, size_t parts, uint8_t *names)
{
    uint64_t claims[LIFETIME_COHORTS_MAX][LIFETIME_COHORTS_MAX] = {{0}};
    bool is_taken[LIFETIME_COHORTS_MAX] = {false}, is_named[LIFETIME_COHORTS_MAX] = {false};
    for (size_t part = 0; part < parts; part++)
        for (size_t i = segments[part].first; i < segments[part].end; i++) {
            const struct lifetime_site *site = &sites[order[i]];
            claims[part][site->cohort] += site->live_blocks * site->bytes + 1;
        }
    for (size_t named = 0; named < parts; named++) {
        size_t part = 0, cohort = 0;
        bool is_any = false;
        for (size_t i = 0; i < parts * LIFETIME_COHORTS_MAX; i++) {
            size_t p = i / LIFETIME_COHORTS_MAX, c = i % LIFETIME_COHORTS_MAX;
            if (is_named[p] || is_taken[c] || (is_any && claims[p][c] <= claims[part][cohort]))
                continue;
            part = p;
            cohort = c;
            is_any = true;
        }
        names[part] = (uint8_t)cohort;
        is_named[part] = is_taken[cohort] = true;
    }
}

/* Records the cohort that a decision wants for a site. Whether the site moves. */
static bool set_wanted(struct lifetime_site *site, uint8_t cohort)
{
    site->streak = site->wanted == cohort ? (uint8_t)size_min(site->streak + 1u, UINT8_MAX) : 1;
    site->wanted = cohort;
    if (site->cohort == cohort || site->streak < LIFETIME_STREAK)
        return false;
    site->cohort = cohort;
    return true;
}

size_t lifetime_decide(struct lifetime_site *sites, size_t count, uint16_t *order)
{
    struct segment segments[KINDS_MAX];
    uint8_t names[LIFETIME_COHORTS_MAX] = {0};
    observe(sites, count);
    size_t ranked = order_sites(sites, count, order), moved = 0;
    if (ranked == 0)
        return 0;
    size_t parts = cut_all(sites, order, ranked, segments);
    parts = join(sites, order, segments, parts);
    name_segments(sites, order, segments, parts, names);
    for (size_t part = 0; part < parts; part++)
        for (size_t i = segments[part].first; i < segments[part].end; i++)
            moved += set_wanted(&sites[order[i]], names[part]);
    return moved;
}
