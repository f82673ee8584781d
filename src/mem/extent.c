/*
 * extent.c: moves the front of a reserved range; see extent.h.
 *
 * Owner: any thread, lock-free: `committed` only grows, by compare-and-swap. Several threads may
 * have the kernel commit the same pages, which changes nothing: docs/protocols/front.md.
 */
#include "mem/extent.h"

#include "base/bits.h"
#include "os/os.h"

enum { NO_MEMORY = -12 }; /* -ENOMEM, the only failure there is */

int extent_reserve(struct extent *extent, size_t size, size_t align, const char *name)
{
    void *start;
    int error = os_counted(os_reserve(size, align, &start));
    if (error != 0)
        return error;
    *extent = (struct extent){.start = (char *)start, .reserved = size, .name = name};
    return 0;
}

/* F2 release: whoever sees the front may write below it; pairs with loads of `committed`. */
static void raise(struct extent *extent, size_t front)
{
    size_t committed = load(&extent->committed, RELAXED);
    while (committed < front &&
           !compare_swap(&extent->committed, &committed, front, RELEASE, RELAXED))
        continue; /* each turn is another thread's progress */
}

/* From where the front was seen. */
static int commit_to(struct extent *extent, size_t committed, size_t target)
{
    int error = os_counted(os_commit(extent->start + committed, target - committed)); /* F1 */
    if (error != 0)
        return error;
    os_name(extent->start + committed, target - committed, extent->name);
    raise(extent, target);
    return 0;
}

static int commit(struct extent *extent, size_t committed, size_t needed, size_t step)
{
    size_t target = size_min(needed + size_min(step, SIZE_MAX - needed),
                             load(&extent->reserved, RELAXED));
    int error = commit_to(extent, committed, target);
    if (error != 0 && target > needed) /* the step is a wish; what is needed may still fit */
        error = commit_to(extent, committed, needed);
    return error;
}

int extent_commit(struct extent *extent, size_t needed, size_t step)
{
    size_t committed = load(&extent->committed, ACQUIRE);
    if (needed > committed && needed > load(&extent->reserved, RELAXED))
        return NO_MEMORY;
    while (committed < needed) {
        size_t seen = committed;
        int error = commit(extent, seen, needed, step);
        committed = load(&extent->committed, ACQUIRE);
        /* Another thread may have moved the front, and then have used what lies below it in its
         * own way: a failure means nothing then. */
        if (error != 0 && committed == seen)
            return error;
    }
    return 0;
}
