/*
 * stats.c: gathers statistics from depots, caches and spans, and writes them. Allocates nothing.
 *
 * Other threads work meanwhile: each number is exact at some moment, but not all at one moment.
 */
#include "front/stats.h"

#include "base/text.h"
#include "core/depot.h"
#include "core/large.h"
#include "core/misuse.h"
#include "core/purge.h"
#include "core/registry.h"
#include "core/sampled_small.h"
#include "core/armed.h"
#include "core/large_cache.h"
#include "core/thread.h"
#include "front/cohorts.h"
#include "front/front.h"
#include "mem/meta.h"
#include "mem/span.h"
#include "site/learned.h"
#include "site/learned_report.h"
#include "site/sample.h"

/* Reports go out in pieces: a thread's whole stack may be 16 KiB. */
enum { PIECE_BYTES = 1024 };

struct report {
    struct text text; /* first: take_piece() casts the text to its report */
    int fd;
    int error; /* of the first failed write, negative */
    char piece[PIECE_BYTES];
};

static size_t cached_in_bin(unsigned bin)
{
    size_t blocks = 0;
    for (const struct cache *cache = registry_newest(); cache != NULL; cache = cache->below) {
        blocks += cache_count(cache, bin);
        for (unsigned turn = 0; turn < ARMED_COHORTS && bin_is_armable(bin); turn++)
            blocks += cache_count(cache, bin_armed(bin, turn));
    }
    return blocks;
}

struct stats_bin stats_read_bin(struct depot *depot)
{
    bool is_locked = depot_lock_or_fail(depot); /* on failure the numbers may disagree */
    size_t slabs = load(&depot->slab_count, RELAXED);
    size_t blocks = slabs * class_facts[bin_class(depot->bin)].capacity;
    size_t taken = blocks - size_min(blocks, load(&depot->free_blocks, RELAXED));
    if (is_locked)
        lock_release(&depot->lock, RANK_DEPOT);
    return (struct stats_bin){
        .slabs = slabs,
        .taken_blocks = taken,
        .cached_blocks = cached_in_bin(depot->bin) + depot_batch_blocks(depot),
    };
}

void stats_read_classes(struct stats_class out[CLASS_LIMIT])
{
    for (unsigned class = 0; class < CLASS_LIMIT; class ++)
        out[class] = (struct stats_class){.block_bytes = class_facts[class].bytes};
    for (struct depot *depot = depot_newest(); depot != NULL; depot = depot->below) {
        struct stats_class *class = &out[bin_class(depot->bin)];
        struct stats_bin bin = stats_read_bin(depot);
        class->slabs += bin.slabs;
        class->cached_blocks += bin.cached_blocks;
        class->live_blocks += bin.taken_blocks;
    }
    /* A cache may hold one cohort's blocks under another, so only sums of a class can be
     * subtracted. */
    for (unsigned class = 0; class < CLASS_LIMIT; class ++) {
        out[class].cached_blocks = size_min(stats_cached(out[class].cached_blocks),
                                            out[class].live_blocks);
        out[class].live_blocks -= out[class].cached_blocks;
    }
}

static size_t resident_now(void)
{
    return region_resident_bytes() + region_tables_resident_bytes() + meta_resident_bytes() +
           sample_resident_bytes() + learned_resident_bytes();
}

/* Bytes of the region that are committed and still have addresses. */
static size_t region_mapped_now(void)
{
    size_t mapped = region_mapped_bytes();
    return mapped - size_min(mapped, span_unmapped_bytes());
}

struct stats_totals stats_read_totals(void)
{
    struct depot_sums small = depot_sums();
    size_t waiting_spans = large_cache_bytes();
    size_t large = large_bytes();
    size_t mapped = region_mapped_now();
    size_t used = size_min(small.out_bytes + large - size_min(large, waiting_spans), mapped);
    size_t fast = size_min(small.waiting_bytes + waiting_spans, mapped - used);
    return (struct stats_totals){
        .mapped_bytes = mapped,
        .mapped_bytes_max = region_mapped_bytes(),
        .reserved_bytes = region_reserved_bytes(),
        .used_bytes = used,
        .fast_bytes = fast,
        .fast_blocks = small.waiting_blocks,
        .rest_bytes = mapped - used - fast,
        .dirty_bytes = size_min(span_dirty_bytes(), mapped - used),
    };
}

static void read_all(struct calm_stats *out, struct stats_class classes[CLASS_LIMIT])
{
    stats_read_classes(classes);
    size_t live = 0, cached = 0, slabs = 0;
    for (unsigned class = 1; class < CLASS_COUNT; class ++) {
        live += classes[class].live_blocks * classes[class].block_bytes;
        cached += classes[class].cached_blocks * classes[class].block_bytes;
        slabs += classes[class].slabs;
    }
    size_t large = large_bytes() - size_min(large_cache_bytes(), large_bytes());
    size_t metadata = region_tables_mapped_bytes() + meta_mapped_bytes() + sample_mapped_bytes() +
                      learned_mapped_bytes();
    struct profile_facts profile = profile_facts();
    struct intern_counts interned = intern_counts();
    *out = (struct calm_stats){
        .allocated_bytes = live + cached + large,
        .cached_bytes = cached,
        .cached_limit_bytes = thread_cache_bytes_limit() + batch_bytes_limit() +
                              SAMPLED_KEPT_BYTES * registry_count() + depot_deferred_bytes(),
        .active_bytes = (slabs << CHUNK_SHIFT) + large_bytes(),
        .mapped_bytes = region_mapped_now() + metadata,
        .reserved_bytes = region_reserved_bytes() + meta_reserved_bytes() + sample_mapped_bytes() +
                          learned_mapped_bytes(),
        .resident_bytes = resident_now(),
        .metadata_bytes = metadata,
        .dirty_bytes = span_dirty_bytes() + large_cache_bytes(),
        .purged_bytes = purge_bytes(),
        .foreign_frees = misuse_foreign_count(),
        .misuses = misuse_count(),
        .failed_calls = front_failed_calls(),
        .failed_os_calls = load(&os_failed_calls, RELAXED),
        .threads = thread_count(),
        .cohorts = site_cohorts(),
        .profile_on = profile.is_on,
        .profile_samples = profile.samples,
        .profile_samples_lost = profile.samples_lost,
        .interned_sites = interned.sites,
        .retired_sites = interned.retired,
        .overflow_sites = interned.overflow,
        .owned_bytes = span_owned_bytes(),
    };
}

void stats_read(struct calm_stats *out)
{
    struct stats_class classes[CLASS_LIMIT];
    read_all(out, classes);
}

struct field {
    const char *name;
    uint64_t value;
};

enum { FIELDS = 23 };

static void fields_of(const struct calm_stats *stats, struct field out[FIELDS])
{
    const struct field fields[FIELDS] = {
        {"allocated_bytes", stats->allocated_bytes},
        {"cached_bytes", stats->cached_bytes},
        {"cached_limit_bytes", stats->cached_limit_bytes},
        {"active_bytes", stats->active_bytes},
        {"mapped_bytes", stats->mapped_bytes},
        {"reserved_bytes", stats->reserved_bytes},
        {"resident_bytes", stats->resident_bytes},
        {"metadata_bytes", stats->metadata_bytes},
        {"dirty_bytes", stats->dirty_bytes},
        {"purged_bytes", stats->purged_bytes},
        {"foreign_frees", stats->foreign_frees},
        {"misuses", stats->misuses},
        {"failed_calls", stats->failed_calls},
        {"failed_os_calls", stats->failed_os_calls},
        {"threads", stats->threads},
        {"cohorts", stats->cohorts},
        {"profile_on", stats->profile_on},
        {"profile_samples", stats->profile_samples},
        {"profile_samples_lost", stats->profile_samples_lost},
        {"interned_sites", stats->interned_sites},
        {"retired_sites", stats->retired_sites},
        {"overflow_sites", stats->overflow_sites},
        {"owned_bytes", stats->owned_bytes},
    };
    for (size_t i = 0; i < FIELDS; i++)
        out[i] = fields[i];
}

/* Which caches the threads use now. */
static const char *cached_by(void)
{
    return load(&cores_are_used, RELAXED) ? "core" : "thread";
}

static void take_piece(struct text *filled)
{
    struct report *report = (struct report *)(void *)filled;
    if (report->error == 0)
        report->error = os_write(report->fd, filled->start, filled->length);
    filled->length = 0;
}

static void report_begin(struct report *report, int fd)
{
    report->text = text_begin(report->piece, sizeof report->piece);
    report->text.on_full = take_piece;
    report->fd = fd;
    report->error = 0;
}

/* Returns 0 or a positive errno value. */
static int report_end(struct report *report)
{
    take_piece(&report->text);
    return -report->error;
}

int stats_write_text(int fd)
{
    struct report report;
    struct text *text = &report.text;
    struct calm_stats stats;
    struct field fields[FIELDS];
    struct stats_class classes[CLASS_LIMIT];
    read_all(&stats, classes);
    fields_of(&stats, fields);
    report_begin(&report, fd);
    text_format(text, "calmalloc " CALM_VERSION_TEXT " statistics; caches by %s", cached_by());
    if (cores_refusal() != NULL)
        text_format(text, ": %s", cores_refusal());
    if (shard_count > 1)
        text_format(text, "; batches in %u shards", shard_count);
    text_add_char(text, '\n');
    for (size_t i = 0; i < FIELDS; i++) {
        text_add_column(text, fields[i].value, 20);
        text_format(text, "  %s\n", fields[i].name);
    }
    if (stats.overflow_sites > 0)
        text_format(
            text,
            "  %zu sites share one cohort; %u have their own. What must be apart asks first, "
            "or by a tag (calmalloc/tag.h).\n",
            (size_t)stats.overflow_sites, (unsigned)stats.interned_sites);
    learned_report_text(text);
    text_add(text, "  block bytes  live blocks    cached     slabs\n");
    for (unsigned class = 1; class < CLASS_COUNT; class ++) {
        if (classes[class].slabs == 0)
            continue;
        text_add_column(text, classes[class].block_bytes, 13);
        text_add_column(text, classes[class].live_blocks, 13);
        text_add_column(text, classes[class].cached_blocks, 10);
        text_add_column(text, classes[class].slabs, 10);
        text_add_char(text, '\n');
    }
    text_format(text, "        large");
    text_add_column(text, large_count(), 13);
    text_format(text, "  (%zu bytes)\n", large_bytes());
    return report_end(&report);
}

int stats_write_json(int fd)
{
    struct report report;
    struct text *text = &report.text;
    struct calm_stats stats;
    struct field fields[FIELDS];
    struct stats_class classes[CLASS_LIMIT];
    read_all(&stats, classes);
    fields_of(&stats, fields);
    report_begin(&report, fd);
    text_add(text, "{\"version\":\"" CALM_VERSION_TEXT "\"");
    text_add_member(text, "pid", os_process_id());
    for (size_t i = 0; i < FIELDS; i++)
        text_add_member(text, fields[i].name, fields[i].value);
    text_format(text, ",\"caches_by\":\"%s\"", cached_by());
    if (cores_refusal() != NULL)
        text_format(text, ",\"no_cores\":\"%s\"", cores_refusal());
    text_add_member(text, "shards", shard_count);
    text_add_char(text, ',');
    learned_report_json(text);
    text_add(text, "\"classes\":[");
    bool is_first = true;
    for (unsigned class = 1; class < CLASS_COUNT; class ++) {
        if (classes[class].slabs == 0)
            continue;
        text_add(text, is_first ? "{" : ",{");
        is_first = false;
        text_add_member(text, "bytes", classes[class].block_bytes);
        text_add_member(text, "live_blocks", classes[class].live_blocks);
        text_add_member(text, "live_bytes",
                        classes[class].live_blocks * classes[class].block_bytes);
        text_add_member(text, "cached_blocks", classes[class].cached_blocks);
        text_add_member(text, "slabs", classes[class].slabs);
        text_add_char(text, '}');
    }
    text_add(text, "],");
    cohorts_add_json(text);
    text_add_member(text, "large_blocks", large_count());
    text_add_member(text, "large_bytes", large_bytes());
    text_add(text, "}\n");
    return report_end(&report);
}
