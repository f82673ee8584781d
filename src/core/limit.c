/*
 * limit.c: the heap's memory limits, from its options and from the process's control groups.
 *
 * The groups' limits at the start only bound what the heap keeps for later: caches, batches and
 * dirty memory. With limit=cgroup they limit the heap as limit_mb and soft_limit_mb do, less some
 * room for memory outside the heap, and are reread on the way to more memory: a clock read each
 * time, and each second one thread reads some files. A limit that cannot be read stays as it was.
 *
 * Owner: any thread, lock-free. Threads that apply limits at the same time have read the same ones,
 * or the next reread corrects them. Design: docs/design/spans.md
 */
#include "core/limit.h"

#include "base/bits.h"
#include "core/batch.h"
#include "core/heap.h"
#include "core/purge.h"
#include "core/thread.h"
#include "mem/span.h"
#include "os/os.h"

enum {
    CACHE_SHARE = 128,              /* of a limit: one cache */
    CACHES_SHARE = 16,              /* of a limit: all caches */
    CACHE_LEAST = 16 * 1024,        /* bytes, under any limit */
    BATCH_SHARE = 16,               /* of a limit: all batches */
    DIRTY_SHARE = 8,                /* of a group's limit: dirty memory kept for reuse */
    DIRTY_MOST = 128 * 1024 * 1024, /* bytes at most of that (decisions/memory.md) */
    ROOM_SHARE = 16,                /* of a group's limit: memory that is not charged */
    ROOM_LEAST = 4 * 1024 * 1024,   /* bytes: the program's own pages, and the kernel's for it */
    SOFT_SHARE = 8,                 /* of a group's limit: below it, without a soft limit */
    REREAD_MS = 1000,
    CALL_AGAIN_MS = 100,   /* between two calls while the heap stays over */
    CALL_AGAIN_SHARE = 64, /* or sooner, once this part of the limit more is charged */
};

static unsigned cpus = 1;

/* The settings; 0 is no limit. */
static struct {
    _Atomic size_t hard, soft, cache_bytes_each;
    _Atomic bool is_by_group;
} asked;

static _Atomic size_t group_max = SIZE_MAX;
static _Atomic size_t group_high = SIZE_MAX;
static _Atomic uint64_t reread_due_ms;

static void (*_Atomic on_over)(size_t bytes_over);
static _Atomic size_t over_from = SIZE_MAX; /* charged bytes above which the callback is due */
static _Atomic size_t called_at;            /* charged bytes at the last call */
static _Atomic uint64_t called_ms;
static _Thread_local bool is_calling;
_Thread_local size_t limit_passed_by;

static size_t or_none(size_t limit)
{
    return limit == 0 ? SIZE_MAX : limit;
}

/* A group's limit less the room for memory outside the heap. */
static size_t without_room(size_t limit)
{
    if (limit == SIZE_MAX)
        return SIZE_MAX;
    size_t room = size_max(limit / ROOM_SHARE, ROOM_LEAST);
    return size_max(limit - size_min(room, limit / 2), CHUNK_BYTES);
}

/* As span_limit() takes it: 0 is none. */
static size_t or_zero(size_t limit)
{
    return limit == SIZE_MAX ? 0 : limit;
}

/* Scales caches and batches to the lowest limit. */
static void scale_caches(size_t least)
{
    size_t each = size_max(least / CACHE_SHARE, CACHE_LEAST);
    thread_set_budget(size_min(load(&asked.cache_bytes_each, RELAXED), each), least / CACHES_SHARE,
                      cpus);
    batch_set_limit(cpus, least / BATCH_SHARE);
}

/* Only a share of a group's limit, since the group has other processes too. */
static void scale_dirty(size_t by_group, size_t own)
{
    store(&purge_settings.dirty_most, size_min(by_group / DIRTY_SHARE, DIRTY_MOST), RELAXED);
    store(&purge_settings.limit, own, RELAXED);
}

static void apply_limits(void)
{
    size_t hard = or_none(load(&asked.hard, RELAXED)), soft = or_none(load(&asked.soft, RELAXED));
    size_t max = load(&group_max, RELAXED), high = load(&group_high, RELAXED);
    if (load(&asked.is_by_group, RELAXED)) {
        size_t by_group = without_room(max);
        hard = size_min(hard, by_group);
        soft = size_min(soft, size_min(without_room(high), by_group));
        if (by_group != SIZE_MAX)
            soft = size_min(soft, by_group - by_group / SOFT_SHARE);
    }
    span_limit(or_zero(hard));
    store(&purge_settings.soft_limit, or_zero(soft), RELAXED);
    store(&over_from, size_min(hard, soft), RELAXED);
    scale_caches(size_min(size_min(hard, soft), size_min(max, high)));
    scale_dirty(size_min(max, high), size_min(hard, soft));
}

void limit_start(unsigned cpu_count, size_t group_bytes)
{
    cpus = cpu_count;
    store(&group_max, group_bytes, RELAXED);
}

/* Whether a call is due at `charged` bytes. */
static bool is_call_due(size_t charged, uint64_t now)
{
    size_t step = load(&over_from, RELAXED) / CALL_AGAIN_SHARE;
    return charged > load(&called_at, RELAXED) + step ||
           now - load(&called_ms, RELAXED) >= CALL_AGAIN_MS;
}

/* Bytes over the limit, `more` refused ones included. */
static size_t bytes_over(size_t more)
{
    size_t charged = span_charged_bytes() + more, from = load(&over_from, RELAXED);
    return charged - size_min(charged, from);
}

static void on_charge(size_t units)
{
    limit_reread();
    if (load(&on_over, RELAXED) == NULL || is_calling)
        return;
    size_t bytes = units << UNIT_SHIFT, from = load(&over_from, RELAXED);
    if (unlikely(bytes_over(bytes) > 0))
        limit_passed_by = bytes;
    else if (span_charged_bytes() + bytes <= from - from / CALL_AGAIN_SHARE &&
             load(&called_at, RELAXED) != 0)
        store(&called_at, 0, RELAXED);
}

/* For a limit that was passed without a refusal: true for one of the threads that come at once. */
static bool begin_call(void)
{
    size_t charged = span_charged_bytes();
    uint64_t now = os_clock_ms(), last = load(&called_ms, RELAXED);
    if (!is_call_due(charged, now) || !compare_swap(&called_ms, &last, now, RELAXED, RELAXED))
        return false;
    store(&called_at, charged, RELAXED);
    return true;
}

/* A refusal comes after a collect(). No callback can help a request for more than the whole limit.
 */
NOINLINE bool limit_settle(bool is_refused)
{
    void (*callback)(size_t) = load(&on_over, ACQUIRE);
    size_t more = is_refused ? limit_passed_by : 0;
    limit_passed_by = 0;
    if (callback == NULL || is_calling || more > load(&over_from, RELAXED) ||
        !(is_refused || begin_call()))
        return false;
    is_calling = true;
    if (!is_refused) {
        thread_empty_cache();
        purge_collect();
    }
    size_t over = bytes_over(more);
    if (over > 0)
        callback(over);
    if (!is_refused) /* the next step begins where the callback left off */
        store(&called_at, span_charged_bytes(), RELAXED);
    is_calling = false;
    return true;
}

void limit_on_over(void (*callback)(size_t bytes_over))
{
    store(&on_over, callback, RELEASE);
    span_on_charge(on_charge);
}

void limit_apply(const struct heap_settings *settings)
{
    store(&asked.hard, settings->limit_bytes, RELAXED);
    store(&asked.soft, settings->soft_limit_bytes, RELAXED);
    store(&asked.cache_bytes_each, settings->cache_bytes_each, RELAXED);
    store(&asked.is_by_group, settings->is_limited_by_group, RELAXED);
    if (settings->is_limited_by_group) {
        span_on_charge(on_charge);
        store(&reread_due_ms, 0, RELAXED);
        limit_reread();
    }
    apply_limits();
}

void limit_reread(void)
{
    struct os_limits limits;
    if (likely(!load(&asked.is_by_group, RELAXED)))
        return;
    uint64_t now = os_clock_ms(), due = load(&reread_due_ms, RELAXED);
    if (now < due || !compare_swap(&reread_due_ms, &due, now + REREAD_MS, RELAXED, RELAXED) ||
        !os_limits_read(&limits, OS_LIMITS_MEMORY))
        return;
    if (limits.memory_max == load(&group_max, RELAXED) &&
        limits.memory_high == load(&group_high, RELAXED))
        return;
    store(&group_max, limits.memory_max, RELAXED);
    store(&group_high, limits.memory_high, RELAXED);
    apply_limits();
}
