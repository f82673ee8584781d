/*
 * glibc.c: glibc's functions for statistics and tuning. Not compiled with another C library, whose
 * headers lack these types.
 *
 * mallopt accepts every parameter and changes nothing: the parameters describe glibc's allocator.
 */
#define _GNU_SOURCE

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <unistd.h>

#include "base/text.h"
#include "front/front.h"
#include "front/stats.h"

EXPORT int mallopt(int parameter, int value)
{
    (void)parameter;
    (void)value;
    return 1;
}

EXPORT struct mallinfo2 mallinfo2(void)
{
    struct stats_totals totals = stats_read_totals();
    return (struct mallinfo2){
        .arena = totals.mapped_bytes,
        .smblks = totals.fast_blocks,
        .fsmblks = totals.fast_bytes,
        .uordblks = totals.used_bytes,
        .fordblks = totals.fast_bytes + totals.rest_bytes,
        .keepcost = totals.dirty_bytes,
    };
}

static int as_int(size_t value)
{
    return value > INT32_MAX ? INT32_MAX : (int)value;
}

EXPORT struct mallinfo mallinfo(void)
{
    struct mallinfo2 wide = mallinfo2();
    return (struct mallinfo){
        .arena = as_int(wide.arena),
        .smblks = as_int(wide.smblks),
        .fsmblks = as_int(wide.fsmblks),
        .uordblks = as_int(wide.uordblks),
        .fordblks = as_int(wide.fordblks),
        .keepcost = as_int(wide.keepcost),
    };
}

EXPORT void malloc_stats(void)
{
    stats_write_text(STDERR_FILENO);
}

/* glibc's totals. fast: free blocks in batches and the large cache. rest: all other free bytes.
 * All address-space figures are equal but `max`, which never falls. No block has a mapping of its
 * own. */
static void write_totals(FILE *stream, const struct stats_totals *totals, size_t rest_blocks)
{
    fprintf(stream, "<total type=\"fast\" count=\"%zu\" size=\"%zu\"/>\n", totals->fast_blocks,
            totals->fast_bytes);
    fprintf(stream, "<total type=\"rest\" count=\"%zu\" size=\"%zu\"/>\n", rest_blocks,
            totals->rest_bytes);
}

static void write_system(FILE *stream, const struct stats_totals *totals)
{
    static const char *const names[] = {"system type=\"current\"", "system type=\"max\"",
                                        "aspace type=\"total\"", "aspace type=\"mprotect\""};
    size_t now = totals->mapped_bytes, sizes[] = {now, totals->mapped_bytes_max, now, now};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        fprintf(stream, "<%s size=\"%zu\"/>\n", names[i], sizes[i]);
}

/* Writes the free blocks of each class, including those in caches and batches. Returns their
 * number. */
static size_t write_sizes(FILE *stream)
{
    size_t all = 0;
    struct stats_class classes[CLASS_LIMIT];
    stats_read_classes(classes);
    fprintf(stream, "<sizes>\n");
    for (unsigned class = 1; class < CLASS_COUNT; class ++) {
        size_t from = class_facts[class - 1].bytes + 1, to = class_facts[class].bytes;
        size_t blocks = classes[class].slabs * class_facts[class].capacity;
        size_t free_blocks = blocks - size_min(blocks, classes[class].live_blocks);
        all += free_blocks;
        if (classes[class].slabs > 0)
            fprintf(stream, "<size from=\"%zu\" to=\"%zu\" total=\"%zu\" count=\"%zu\"/>\n", from,
                    to, free_blocks * to, free_blocks);
    }
    fprintf(stream, "</sizes>\n");
    return all;
}

EXPORT int malloc_info(int options, FILE *stream)
{
    if (options != 0) {
        errno = EINVAL;
        return -1;
    }
    fprintf(stream, "<malloc version=\"1\">\n<heap nr=\"0\">\n");
    size_t free_blocks = write_sizes(stream);
    struct stats_totals totals = stats_read_totals();
    size_t rest_blocks = free_blocks - size_min(free_blocks, totals.fast_blocks);
    write_totals(stream, &totals, rest_blocks);
    write_system(stream, &totals);
    fprintf(stream, "</heap>\n");
    write_totals(stream, &totals, rest_blocks);
    fprintf(stream, "<total type=\"mmap\" count=\"0\" size=\"0\"/>\n");
    write_system(stream, &totals);
    fprintf(stream, "</malloc>\n");
    return ferror(stream) ? -1 : 0;
}
