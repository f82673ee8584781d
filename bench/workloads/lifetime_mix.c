/*
 * lifetime_mix SEED LONG SHORT REPLACEMENTS SITES WAIT: SHORT blocks that come and go, and LONG
 * blocks that stay and are made one by one among them, both of 15 sizes; then all short-lived ones
 * are freed. With SITES 1 eight call sites make the long-lived blocks and eight others the
 * short-lived; with SITES 0 one call site makes all, for comparison. With WAIT 1 it samples 1 and
 * 11 s after the last free as well.
 *
 * Measures whether blocks that live long end up among those that do not, and hold their pages.
 * `resident_over_live` is at the last sample before the library is asked to give back. Real
 * programs' sites are not as pure as these. Does not measure time, nor several threads.
 */
#include "resident.h"
#include "slots.h"

enum { SITES_A_KIND = 8, PARTS = 16 };

CALL_SITE(site_0, 0)
CALL_SITE(site_1, 1)
CALL_SITE(site_2, 2)
CALL_SITE(site_3, 3)
CALL_SITE(site_4, 4)
CALL_SITE(site_5, 5)
CALL_SITE(site_6, 6)
CALL_SITE(site_7, 7)
CALL_SITE(site_8, 8)
CALL_SITE(site_9, 9)
CALL_SITE(site_10, 10)
CALL_SITE(site_11, 11)
CALL_SITE(site_12, 12)
CALL_SITE(site_13, 13)
CALL_SITE(site_14, 14)
CALL_SITE(site_15, 15)

static void *(*const long_sites[SITES_A_KIND])(size_t) = {site_0, site_1, site_2, site_3,
                                                          site_4, site_5, site_6, site_7};
static void *(*const short_sites[SITES_A_KIND])(size_t) = {site_8,  site_9,  site_10, site_11,
                                                           site_12, site_13, site_14, site_15};

static struct table long_lived, short_lived;
static bool has_sites;

static void fill(struct table *table, uint32_t index, void *(*const sites[])(size_t))
{
    uint32_t bytes = table_draw_size(table), site = random_below(&table->random, SITES_A_KIND);
    slot_hold(table, index, has_sites ? sites[site](bytes) : site_0(bytes), bytes);
}

/* Replaces `count` short-lived blocks; meanwhile the long-lived ones grow to `wanted`. */
static void mix(uint64_t count, uint32_t wanted)
{
    uint32_t before = long_lived.live;
    for (uint64_t i = 0; i < count; i++) {
        uint32_t index = random_below(&short_lived.random, short_lived.live);
        slot_empty(&short_lived, index);
        fill(&short_lived, index, short_sites);
        while (long_lived.live - before < (wanted - before) * (i + 1) / count)
            fill(&long_lived, long_lived.live++, long_sites);
    }
}

int main(int argc, char **argv)
{
    uint64_t seed = argument(argc, argv, 1, "seed");
    uint32_t long_count = (uint32_t)argument(argc, argv, 2, "long");
    uint32_t short_count = (uint32_t)argument(argc, argv, 3, "short");
    uint64_t replacements = argument(argc, argv, 4, "replacements");
    has_sites = argument(argc, argv, 5, "sites") != 0;
    bool waits = argument(argc, argv, 6, "wait") != 0;
    if (long_count == 0 || short_count == 0 || replacements < PARTS)
        fail("some blocks of both kinds, and at least %d replacements", PARTS);
    table_open(&long_lived, long_count, random_stream(seed, 0));
    table_open(&short_lived, short_count, random_stream(seed, 1));
    watch_start();
    start_clock();
    while (short_lived.live < short_count)
        fill(&short_lived, short_lived.live++, short_sites);
    stop_clock();
    watch_sample();
    struct memory mixed = {0};
    for (unsigned part = 0; part < PARTS; part++) {
        start_clock();
        mix(replacements * (part + 1) / PARTS - replacements * part / PARTS,
            (uint32_t)((uint64_t)long_count * (part + 1) / PARTS));
        stop_clock();
        mixed = watch_sample();
    }
    start_clock();
    table_shrink(&short_lived, 0);
    stop_clock();
    table_tighten(&short_lived);
    struct aftermath left = watch_aftermath(waits);
    double live_kib = (double)long_lived.live_bytes / 1024;
    table_shrink(&long_lived, 0);
    struct memory ended = watch_sample();
    result_number("live_kib", live_kib);
    result_number("resident_over_live", (double)aftermath_last(&left).resident_kib / live_kib);
    result_number("trimmed_over_live", (double)left.trimmed.resident_kib / live_kib);
    result_memory("mixed", mixed);
    result_aftermath("left_", &left);
    result_memory("ended", ended);
    result_watch();
    return result_print(long_lived.check * 31 + short_lived.check);
}
