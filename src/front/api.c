/*
 * api.c: the calm_ names of calmalloc.h and adapter.h.
 */
#include "calmalloc/adapter.h"

#include "base/text.h"
#include "core/compact.h"
#include "core/purge.h"
#include "front/cohorts.h"
#include "front/front.h"
#include "front/options.h"
#include "front/sites.h"
#include "front/stats.h"
#include "mem/extent.h"
#include "mem/span.h"
#include "site/profile_write.h"
#include "site/sample.h"

enum { BYTES_A_SAMPLE = 512 * 1024, ADAPTER_ALIGN_MAX = 16 };

EXPORT const char *calm_version(void)
{
    return CALM_VERSION_TEXT;
}

EXPORT void *calm_malloc(size_t size)
{
    return front_alloc_here(size);
}

EXPORT void *calm_calloc(size_t count, size_t size)
{
    return front_zeroed(count, size, CALLER, CALLER_FRAME);
}

EXPORT void *calm_realloc(void *block, size_t size)
{
    return front_realloc(block, size, CALLER, CALLER_FRAME);
}

EXPORT void *calm_reallocarray(void *block, size_t count, size_t size)
{
    size_t product = front_product(count, size);
    return product > PTRDIFF_MAX ? front_fail()
                                 : front_realloc(block, product, CALLER, CALLER_FRAME);
}

EXPORT void *calm_aligned_alloc(size_t alignment, size_t size)
{
    if (!is_power_of_two(alignment)) {
        os_set_errno(FRONT_EINVAL);
        return NULL;
    }
    return front_aligned(alignment, size, CALLER, CALLER_FRAME);
}

EXPORT void calm_free(void *block)
{
    heap_free(block);
}

EXPORT void calm_free_sized(void *block, size_t size)
{
    heap_free_own(block, size, 1, SIZE_FIRST);
}

EXPORT void calm_free_aligned_sized(void *block, size_t alignment, size_t size)
{
    heap_free_own(block, size, alignment, ALIGN_FIRST);
}

EXPORT void calm_adapter_free(void *block, size_t size, size_t alignment)
{
    heap_free_own(block, size, alignment, SIZE_FIRST);
}

EXPORT void calm_adapter_free_checked(void *block, size_t size, size_t alignment)
{
    heap_free_sized(block, size, alignment);
}

/* A growing container reallocs small blocks most of all. The class and the bytes to copy are known
 * here. */
EXPORT void *calm_adapter_realloc(void *block, size_t size, size_t new_size)
{
    if (new_size <= size || new_size > MEDIUM_MAX)
        return front_realloc(block, new_size, CALLER, CALLER_FRAME);
    if (new_size <= class_facts[class_of(size)].bytes)
        return block;
    void *moved = front_alloc(new_size, CALLER, CALLER_FRAME);
    if (moved == NULL)
        return NULL;
    __builtin_memcpy(moved, block, size);
    heap_free_own(block, size, ADAPTER_ALIGN_MAX, SIZE_FIRST);
    return moved;
}

EXPORT size_t calm_usable_size(const void *block)
{
    return heap_usable(block);
}

EXPORT size_t calm_good_size(size_t size)
{
    return heap_good_size(size);
}

EXPORT bool calm_trim(void)
{
    return heap_trim();
}

EXPORT bool calm_should_move(const void *block)
{
    return compact_helps(block);
}

EXPORT void *calm_move(void *block)
{
    return compact_move(block);
}

EXPORT size_t calm_page_out_cold(uint64_t age_ms)
{
    return heap_start() ? purge_cold(age_ms) : 0;
}

EXPORT void calm_idle(void)
{
    heap_idle();
}

EXPORT void calm_on_limit(void (*callback)(size_t bytes_over))
{
    limit_on_over(callback);
}

EXPORT size_t calm_committed(void)
{
    return extent_committed_all();
}

EXPORT size_t calm_charged(void)
{
    return span_charged_bytes();
}

EXPORT void calm_stats_read(struct calm_stats *out)
{
    stats_read(out);
}

EXPORT size_t calm_cohorts_read(struct calm_cohort *out, size_t capacity)
{
    return cohorts_read(out, capacity);
}

EXPORT int calm_stats_text(int fd)
{
    return stats_write_text(fd);
}

EXPORT int calm_stats_json(int fd)
{
    return stats_write_json(fd);
}

EXPORT int calm_sites_json(int fd)
{
    return sites_write_json(fd);
}

EXPORT const char *calm_verify(void)
{
    return heap_verify();
}

static int error_of(enum option_error error)
{
    switch (error) {
    case OPTION_FINE: return 0;
    case OPTION_UNKNOWN: return FRONT_ENOENT;
    case OPTION_FIXED: return FRONT_EPERM;
    case OPTION_BAD_VALUE: break;
    }
    return FRONT_EINVAL;
}

EXPORT int calm_option_get(const char *name, uint64_t *out)
{
    return error_of(option_read(name, out));
}

EXPORT int calm_option_set(const char *name, uint64_t value)
{
    enum option_error error = option_write(name, value);
    if (error == OPTION_FINE)
        front_options_changed();
    return error_of(error);
}

EXPORT int calm_profile_start(size_t bytes_a_sample, uint64_t seed)
{
    if (!heap_start())
        return FRONT_ENOMEM;
    switch (sample_start(bytes_a_sample == 0 ? BYTES_A_SAMPLE : bytes_a_sample, seed)) {
    case SAMPLE_FINE: return 0;
    case SAMPLE_IS_ON: return FRONT_EBUSY;
    case SAMPLE_NO_MEMORY: return FRONT_ENOMEM;
    case SAMPLE_BAD_RATE: break;
    }
    return FRONT_EINVAL;
}

EXPORT void calm_profile_stop(void)
{
    sample_stop();
}

EXPORT int calm_profile_dump(int fd, const char *format)
{
    static const char *const names[] = {
        [PROFILE_PPROF] = "pprof",
        [PROFILE_HEAP_V2] = "heap_v2",
        [PROFILE_COLLAPSED] = "collapsed",
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (text_is_same(format, names[i]))
            return profile_write(fd, (enum profile_format)i);
    return FRONT_EINVAL;
}
