/*
 * front.c: connects the layers: options to the heap and the sites at start, hooks at load, reports
 * at exit.
 */
#include "front/front.h"

#include "front/options.h"
#include "front/profile.h"
#include "front/sites.h"
#include "front/stats.h"
#include "front/watch.h"
#include "os/dump.h"
#include "site/learned.h"

enum { COMPLAINTS_MAX = 1024 };

static _Atomic uint64_t failed_calls;
static uint64_t
    report_file[2]; /* identity of report_fd at start; a program may close and reuse the number */
static uint64_t sites_file[2]; /* identity of sites_fd at start */

void front_note_file(int fd, uint64_t identity[2])
{
    if (fd != 0)
        os_file_identity(fd, identity);
}

bool front_is_file(int fd, const uint64_t identity[2])
{
    uint64_t now[2];
    return fd != 0 && os_file_identity(fd, now) && now[0] == identity[0] && now[1] == identity[1];
}

static struct heap_settings settings_now(void)
{
    return (struct heap_settings){
        .purges_on_free = option_value(OPTION_purge) != 0,
        .purge_delay_ms = (uint32_t)option_value(OPTION_purge_delay_ms),
        .cold_ms = (uint32_t)option_value(OPTION_cold_ms),
        .cache_bytes_each = (size_t)option_value(OPTION_cache_kb) * 1024,
        .limit_bytes = (size_t)option_value(OPTION_limit_mb) << 20,
        .soft_limit_bytes = (size_t)option_value(OPTION_soft_limit_mb) << 20,
        .is_limited_by_group = option_value(OPTION_limit) != 0,
        .cores = (enum cores_use)option_value(OPTION_cores),
        .shards = (unsigned)option_value(OPTION_shards),
        .huge_from_bytes = (size_t)option_value(OPTION_huge_from_mb) << 20,
        .has_huge_blocks = option_value(OPTION_huge_blocks) != 0,
        .stops_on_misuse = option_value(OPTION_misuse) != 0,
        .stops_on_foreign = option_value(OPTION_foreign) != 0,
    };
}

/* Writes all complaints at once. */
static void read_options(const char *line)
{
    char buffer[COMPLAINTS_MAX];
    struct text complaints = text_begin(buffer, sizeof buffer);
    options_parse(line, &complaints);
    check_write(complaints.start, complaints.length);
}

void heap_configure(const struct os_facts *facts, struct heap_settings *out)
{
    read_options(CALM_BUILD_OPTIONS);
    const char *line = facts->is_secure ? NULL : os_environment("CALM_OPTIONS");
    if (line != NULL)
        read_options(line);
    *out = settings_now();
    front_note_file((int)option_value(OPTION_report_fd), report_file);
    front_note_file((int)option_value(OPTION_sites_fd), sites_file);
    wrapper_configure((enum wrapper_use)option_value(OPTION_wrappers));
    learned_choose(option_value(OPTION_learning_seed));
    site_start((enum site_policy)option_value(OPTION_sites), (size_t)option_value(OPTION_cohorts));
    profile_start_wanted();
}

void front_options_changed(void)
{
    struct heap_settings settings = settings_now();
    heap_apply(&settings);
}

void *front_fail(void)
{
    fetch_add(&failed_calls, 1, RELAXED);
    os_set_errno(FRONT_ENOMEM);
    return NULL;
}

uint64_t front_failed_calls(void)
{
    return load(&failed_calls, RELAXED);
}

NOINLINE void *front_alloc_slow(size_t bytes, const void *site, const void *frame)
{
    void *block = site_alloc_slow(bytes, site, frame);
    return block != NULL ? block : front_fail();
}

/* Not inlined, so front_alloc_missed needs no stack frame. */
static NOINLINE void *alloc_through(size_t bytes, const void *site, const void *frame,
                                    struct cache_miss at)
{
    void *block = second_alloc_through(at, site, frame);
    return block != NULL ? block : front_alloc_slow(bytes, site, frame);
}

NOINLINE void *front_alloc_missed(size_t bytes, const void *site, const void *frame,
                                  struct cache_miss at)
{
    void *block = second_alloc_retry(at, site);
    return likely(block != NULL) ? block : alloc_through(bytes, site, frame, at);
}

void *front_realloc(void *block, size_t bytes, const void *site, const void *frame)
{
    if (block == NULL)
        return front_alloc(bytes, site, frame);
    if (bytes == 0) {
        heap_free(block);
        return NULL;
    }
    void *result = site_realloc(block, bytes, site, frame);
    if (limit_should_retry(result))
        result = site_realloc(block, bytes, site, frame);
    return result != NULL ? result : front_fail();
}

void *front_aligned(size_t align, size_t bytes, const void *site, const void *frame)
{
    if (bytes > PTRDIFF_MAX)
        return front_fail();
    void *block = site_alloc_aligned(bytes, align, site, frame);
    return block != NULL ? block : front_fail();
}

void *front_zeroed(size_t count, size_t bytes, const void *site, const void *frame)
{
    size_t product = front_product(count, bytes);
    void *block = product > PTRDIFF_MAX ? NULL : site_alloc_zeroed(product, site, frame);
    return likely(block != NULL) ? block : front_fail();
}

CONSTRUCTOR_FIRST static void at_load(void)
{
    FACTS_NOTE(watch_table);
    heap_install_hooks();
    profile_at_load();
}

DESTRUCTOR_LAST static void at_exit(void)
{
    if (option_value(OPTION_stats) != 0)
        stats_write_text(2);
    int report_fd = (int)option_value(OPTION_report_fd);
    if (front_is_file(report_fd, report_file)) {
        os_file_lock(report_fd); /* a child that exits now writes to the same file */
        stats_write_json(report_fd);
        os_file_unlock(report_fd);
    }
    int sites_fd = (int)option_value(OPTION_sites_fd);
    if (front_is_file(sites_fd, sites_file))
        sites_write_json(sites_fd);
    profile_at_exit();
}
