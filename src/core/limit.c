/*
 * limit.c: how much memory the heap may have, by its options and by the control groups of the
 * process.
 *
 * What the groups said at the start only scales what the heap keeps for later: caches, batches and
 * dirty memory. With limit=cgroup they are limits as limit_mb and soft_limit_mb are, less some room
 * for what is not the heap's, and are read again on the way to more memory: one look at the clock,
 * and each second one thread that reads some files. What cannot be read then stays as it was.
 *
 * Owner: any thread, lock-free. Threads that put limits in force at the same time have read the
 * same ones, or the next look mends it. Design: docs/design/spans.md
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
    CACHE_SHARE = 128,       /* of a limit, in one cache                                     */
    CACHES_SHARE = 16,       /* of a limit, in all caches                                   */
    CACHE_LEAST = 16 * 1024, /* bytes, however low the limit is                             */
    BATCH_SHARE = 16,        /* of a limit, in all batches                                  */
    DIRTY_SHARE = 8,         /* of a group's limit, dirty for what is taken again,          */
    DIRTY_MOST = 128 * 1024 * 1024, /* and bytes: more is faulted in again (decisions/memory.md) */
    ROOM_SHARE = 16,              /* of a group's limit, for what is not charged                 */
    ROOM_LEAST = 4 * 1024 * 1024, /* bytes: the program's own pages, and the kernel's for it     */
    SOFT_SHARE = 8,               /* below a group's limit, where the group has no softer one    */
    LOOK_MS = 1000,
    TOLD_MS = 100,   /* who was told is told again if it is still so  */
    TOLD_SHARE = 64, /* or sooner, if that part of the limit more is charged */
};

static unsigned cpus = 1;

/* What was asked for; 0 is no limit. */
static struct {
    _Atomic size_t hard, soft, cache_bytes_each;
    _Atomic bool is_by_group;
} asked;

static _Atomic size_t group_max = SIZE_MAX;
static _Atomic size_t group_high = SIZE_MAX;
static _Atomic uint64_t look_due_ms;

static void (*_Atomic told)(size_t bytes_over);
static _Atomic size_t told_from = SIZE_MAX; /* more is charged than so many bytes */
static _Atomic size_t told_at; /* so many were charged when it was told the last time */
static _Atomic uint64_t told_ms;
static _Thread_local bool is_telling;
_Thread_local size_t limit_passed_by;

static size_t or_none(size_t limit)
{
    return limit == 0 ? SIZE_MAX : limit;
}

/* What the heap may have of a group's limit. */
static size_t without_room(size_t limit)
{
    if (limit == SIZE_MAX)
        return SIZE_MAX;
    size_t room = size_max(limit / ROOM_SHARE, ROOM_LEAST);
    return size_max(limit - size_min(room, limit / 2), CHUNK_BYTES);
}

/* In the words of span_limit(): 0 is none. */
static size_t or_zero(size_t limit)
{
    return limit == SIZE_MAX ? 0 : limit;
}

/* What is kept for later is a part of the least limit that there is. */
static void scale(size_t least)
{
    size_t each = size_max(least / CACHE_SHARE, CACHE_LEAST);
    thread_set_budget(size_min(load(&asked.cache_bytes_each, RELAXED), each), least / CACHES_SHARE,
                      cpus);
    batch_set_limit(cpus, least / BATCH_SHARE);
}

/* A group has other processes, too. */
static void scale_dirty(size_t by_group, size_t own)
{
    store(&purge_settings.dirty_most, size_min(by_group / DIRTY_SHARE, DIRTY_MOST), RELAXED);
    store(&purge_settings.limit, own, RELAXED);
}

static void put_in_force(void)
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
    store(&told_from, size_min(hard, soft), RELAXED);
    scale(size_min(size_min(hard, soft), size_min(max, high)));
    scale_dirty(size_min(max, high), size_min(hard, soft));
}

void limit_start(unsigned cpu_count, size_t group_bytes)
{
    cpus = cpu_count;
    store(&group_max, group_bytes, RELAXED);
}

/* Whether it is time to tell, with so many bytes charged now. */
static bool is_telling_due(size_t charged, uint64_t now)
{
    size_t step = load(&told_from, RELAXED) / TOLD_SHARE;
    return charged > load(&told_at, RELAXED) + step || now - load(&told_ms, RELAXED) >= TOLD_MS;
}

/* Bytes beyond the limit, with `more` that were refused. */
static size_t bytes_over(size_t more)
{
    size_t charged = span_charged_bytes() + more, from = load(&told_from, RELAXED);
    return charged - size_min(charged, from);
}

static void on_charge(size_t units)
{
    limit_look();
    if (load(&told, RELAXED) == NULL || is_telling)
        return;
    size_t bytes = units << UNIT_SHIFT, from = load(&told_from, RELAXED);
    if (unlikely(bytes_over(bytes) > 0))
        limit_passed_by = bytes;
    else if (span_charged_bytes() + bytes <= from - from / TOLD_SHARE &&
             load(&told_at, RELAXED) != 0)
        store(&told_at, 0, RELAXED);
}

/* Of a limit that was passed and refused nothing: of threads that come at once one tells. */
static bool begin_telling(void)
{
    size_t charged = span_charged_bytes();
    uint64_t now = os_clock_ms(), last = load(&told_ms, RELAXED);
    if (!is_telling_due(charged, now) || !compare_swap(&told_ms, &last, now, RELAXED, RELAXED))
        return false;
    store(&told_at, charged, RELAXED);
    return true;
}

/* Before a refusal the heap has brought together what is free. A request for more than the whole
 * limit is nobody's to help. */
NOINLINE bool limit_settle(bool is_refused)
{
    void (*callback)(size_t) = load(&told, ACQUIRE);
    size_t more = is_refused ? limit_passed_by : 0;
    limit_passed_by = 0;
    if (callback == NULL || is_telling || more > load(&told_from, RELAXED) ||
        !(is_refused || begin_telling()))
        return false;
    is_telling = true;
    if (!is_refused) {
        thread_empty_cache();
        purge_collect();
    }
    size_t over = bytes_over(more);
    if (over > 0)
        callback(over);
    if (!is_refused) /* the next step begins where the callback left off */
        store(&told_at, span_charged_bytes(), RELAXED);
    is_telling = false;
    return true;
}

void limit_tell(void (*callback)(size_t bytes_over))
{
    store(&told, callback, RELEASE);
    span_tell(on_charge);
}

void limit_apply(const struct heap_settings *settings)
{
    store(&asked.hard, settings->limit_bytes, RELAXED);
    store(&asked.soft, settings->soft_limit_bytes, RELAXED);
    store(&asked.cache_bytes_each, settings->cache_bytes_each, RELAXED);
    store(&asked.is_by_group, settings->is_limited_by_group, RELAXED);
    if (settings->is_limited_by_group) {
        span_tell(on_charge);
        store(&look_due_ms, 0, RELAXED);
        limit_look();
    }
    put_in_force();
}

void limit_look(void)
{
    struct os_limits limits;
    if (likely(!load(&asked.is_by_group, RELAXED)))
        return;
    uint64_t now = os_clock_ms(), due = load(&look_due_ms, RELAXED);
    if (now < due || !compare_swap(&look_due_ms, &due, now + LOOK_MS, RELAXED, RELAXED) ||
        !os_limits_read(&limits, OS_LIMITS_MEMORY))
        return;
    if (limits.memory_max == load(&group_max, RELAXED) &&
        limits.memory_high == load(&group_high, RELAXED))
        return;
    store(&group_max, limits.memory_max, RELAXED);
    store(&group_high, limits.memory_high, RELAXED);
    put_in_force();
}
