/*
 * misuse.c: classifies pointers exactly and reports the bad ones.
 *
 * Reached only from slow paths. core/misuse_search.h finds out whether a block that looks live is
 * free.
 *
 * Owner: any thread; must not be called under a lock.
 */
#include "core/misuse.h"

#include "base/bits.h"
#include "base/check.h"
#include "base/text.h"
#include "calmalloc/pool.h"
#include "core/class.h"
#include "mem/region.h"

struct misuse_policy misuse_policy = {.stops_on_misuse = true};

static _Atomic uint64_t misuses;
static _Atomic uint64_t foreigns;

uint64_t misuse_count(void)
{
    return load(&misuses, RELAXED);
}

uint64_t misuse_foreign_count(void)
{
    return load(&foreigns, RELAXED);
}

/* Counts a misuse. Returns whether the program goes on. */
static bool is_only_counted(void)
{
    fetch_add(&misuses, 1, RELAXED);
    return !load(&misuse_policy.stops_on_misuse, RELAXED);
}

void misuse_report_double(const void *block, const char *verb, size_t bytes)
{
    if (is_only_counted())
        return;
    const char *what = verb[0] == 'f' ? "double free of" : verb;
    check_stop("%s %p: a block of %zu bytes that is already free", what, (void *)(uintptr_t)block,
               bytes);
}

void misuse_report_spoiled(const void *block, size_t bytes)
{
    if (!is_only_counted())
        check_stop("malloc found %p: a free block of %zu bytes that was written to, or freed twice",
                   (void *)(uintptr_t)block, bytes);
}

void misuse_report_pool(const void *block, const char *verb, int error)
{
    if (!is_only_counted())
        check_stop("%s %p, of a pool: %s", verb, (void *)(uintptr_t)block, calm_strerror(error));
}

void misuse_report_sized(const void *block, size_t bytes, size_t told)
{
    if (!is_only_counted())
        check_stop("sized free of %p: has %zu, told %zu", (void *)(uintptr_t)block, bytes, told);
}

void misuse_report_aligned(const void *block, size_t bytes, size_t told)
{
    if (!is_only_counted())
        check_stop("sized free of %p: a block of %zu bytes, told an alignment of %zu",
                   (void *)(uintptr_t)block, bytes, told);
}

static void report_inside(const void *block, const char *verb, size_t inside, size_t bytes)
{
    if (!is_only_counted())
        check_stop("%s %p: %zu bytes inside a block of %zu bytes, not at its start", verb,
                   (void *)(uintptr_t)block, inside, bytes);
}

static void report_nothing_there(const void *block, const char *verb)
{
    if (!is_only_counted())
        check_stop("%s %p: no block begins here; the memory is free", verb,
                   (void *)(uintptr_t)block);
}

static void report_foreign(const void *block, const char *verb)
{
    bool is_first = fetch_add(&foreigns, 1, RELAXED) == 0;
    void *address = (void *)(uintptr_t)block;
    if (load(&misuse_policy.stops_on_foreign, RELAXED))
        check_stop("%s %p: not from calmalloc", verb, address);
    if (!is_first)
        return;
    char buffer[128];
    struct text text = text_begin(buffer, sizeof buffer);
    text_format(&text, "calmalloc: foreign %s %p: not from calmalloc; ignored\n", verb, address);
    check_write(text.start, text.length);
}

/* The tags of free units describe their last block until another block begins there. */
static void report_free(const void *block, size_t chunk, const char *verb)
{
    size_t large = (size_t)load(&region.tags[region_unit(block)].asked, RELAXED) << UNIT_SHIFT;
    size_t small = class_facts[region.tags[chunk * CHUNK_UNITS].class_before].bytes;
    if (large != 0 && (uintptr_t)block % UNIT_BYTES == 0)
        misuse_report_double(block, verb, large);
    else if (small != 0 && (uintptr_t)block % CHUNK_BYTES % small == 0)
        misuse_report_double(block, verb, small);
    else
        report_nothing_there(block, verb);
}

static enum pointer_kind classify_small(const void *block, unsigned bin, const char *verb)
{
    unsigned class = bin_class(bin);
    uint16_t offset = (uint16_t)(uintptr_t)block;
    if (class_begins_block(class, offset))
        return POINTER_SMALL;
    if (class_block(class, offset) < class_facts[class].capacity)
        report_inside(block, verb, offset % class_facts[class].bytes, class_facts[class].bytes);
    else
        report_nothing_there(block, verb);
    return POINTER_BAD;
}

enum pointer_kind misuse_classify(const void *block, const char *verb)
{
    size_t chunk = region_chunk(block);
    if (!region_holds(chunk) || chunk == 0) {
        report_foreign(block, verb);
        return POINTER_FOREIGN;
    }
    unsigned bin = region_bin(chunk);
    if (bin != NO_SLAB)
        return classify_small(block, bin, verb);
    if (region_is_large(block))
        return POINTER_LARGE;
    size_t inside, bytes = region_around(block, &inside);
    if (bytes != 0)
        report_inside(block, verb, inside, bytes);
    else
        report_free(block, chunk, verb);
    return POINTER_BAD;
}
