/*
 * glibc.c: glibc's names around malloc: statistics, tuning. Not compiled where the C
 * library is another one, whose programs have no such names and whose headers have no such types.
 *
 * mallopt accepts everything and changes nothing: its parameters describe an allocator that is not
 * here.
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
    struct calm_stats stats;
    stats_read(&stats);
    return (struct mallinfo2){
        .arena = stats.mapped_bytes,
        .uordblks = stats.allocated_bytes - stats.cached_bytes,
        .fordblks = stats.mapped_bytes - stats.allocated_bytes + stats.cached_bytes,
        .keepcost = stats.dirty_bytes,
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
        .uordblks = as_int(wide.uordblks),
        .fordblks = as_int(wide.fordblks),
        .keepcost = as_int(wide.keepcost),
    };
}

EXPORT void malloc_stats(void)
{
    stats_write_text(STDERR_FILENO);
}

EXPORT int malloc_info(int options, FILE *stream)
{
    if (options != 0) {
        errno = EINVAL;
        return -1;
    }
    struct calm_stats stats;
    struct stats_class classes[CLASS_LIMIT];
    stats_read(&stats);
    stats_read_classes(classes);
    fprintf(stream, "<malloc version=\"1\">\n<heap nr=\"0\">\n<sizes>\n");
    for (unsigned class = 1; class < CLASS_COUNT; class ++) {
        size_t from = class_facts[class - 1].bytes + 1, to = class_facts[class].bytes;
        size_t free_blocks = classes[class].slabs * class_facts[class].capacity -
                             classes[class].live_blocks;
        if (classes[class].slabs > 0)
            fprintf(stream, "<size from=\"%zu\" to=\"%zu\" total=\"%zu\" count=\"%zu\"/>\n", from,
                    to, free_blocks * to, free_blocks);
    }
    fprintf(stream, "</sizes>\n");
    fprintf(stream, "<total type=\"rest\" count=\"0\" size=\"%zu\"/>\n",
            stats.active_bytes - stats.allocated_bytes + stats.cached_bytes);
    fprintf(stream, "<system type=\"current\" size=\"%zu\"/>\n", stats.mapped_bytes);
    fprintf(stream, "<aspace type=\"total\" size=\"%zu\"/>\n</heap>\n</malloc>\n",
            stats.reserved_bytes);
    return ferror(stream) ? -1 : 0;
}
