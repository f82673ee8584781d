/*
 * gone_counted.c: addresses that a trim gives back are not counted as mapped any more, and what is
 * resident around them still is; also where there is no /proc.
 *
 * Seen to fail with all that was ever committed counted as mapped, and with mincore() asked about a
 * range with a hole only once: the kernel refuses all of that range.
 */
#define _GNU_SOURCE

#include "check.h"

#include <calmalloc/calmalloc.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KEPT = 400, KEPT_BYTES = 300 * 1000, LONG_BYTES = 100 * MIB };

static char *kept[KEPT];

static struct calm_stats stats(void)
{
    void (*read)(struct calm_stats *);
    struct calm_stats found;
    *(void **)&read = check_symbol("calm_stats_read");
    read(&found);
    return found;
}

static void keep(size_t first, size_t end)
{
    for (size_t i = first; i < end; i++) {
        kept[i] = malloc(KEPT_BYTES);
        CHECK(kept[i] != NULL, "no memory");
        memset(kept[i], 1, KEPT_BYTES);
    }
}

static void check_near(const char *what, size_t found, size_t wanted)
{
    size_t off = found > wanted ? found - wanted : wanted - found;
    CHECK(off < 4 * MIB, "%s: %zu KiB, not %zu", what, found / KIB, wanted / KIB);
}

int main(void)
{
    check_is_calmalloc();
    keep(0, KEPT / 2);
    char *block = malloc(LONG_BYTES);
    CHECK(block != NULL, "no memory");
    memset(block, 1, LONG_BYTES);
    keep(KEPT / 2, KEPT);
    struct calm_stats before = stats();
    size_t resident = resident_bytes();
    free(block);
    malloc_trim(0);
    struct calm_stats after = stats();
    check_near("mapped", after.mapped_bytes, before.mapped_bytes - LONG_BYTES);
    check_near("resident", after.resident_bytes,
               before.resident_bytes - (resident - resident_bytes()));
    if (chroot("/proc/self/fdinfo") != 0)
        check_skip("this user may not hide /proc");
    check_near("resident, without /proc", stats().resident_bytes, after.resident_bytes);
    return 0;
}
