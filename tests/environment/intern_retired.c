/*
 * intern_retired.c: two plugins (paths are the arguments) are loaded in turn at the same addresses;
 * a site of one is at the place of a site of the other. With sites=intern neither is given a block
 * that the other, or itself when it was loaded before, ever had.
 */
#define _GNU_SOURCE

#include "check.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "calmalloc/calmalloc.h"

enum { ROUNDS = 12, BLOCKS = 2000, BYTES = 48, UNIT_SHIFT = 16, SEEN_MAX = ROUNDS * 64 };

typedef void *(*allocate)(size_t bytes);

/* Units that an earlier load's site had. */
static uintptr_t seen[SEEN_MAX];
static size_t seen_count;

static bool was_seen(uintptr_t unit, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (seen[i] == unit)
            return true;
    return false;
}

/* Loads a plugin, allocates, frees, unloads it. Returns where its function was. */
static uintptr_t turn(const char *path)
{
    static void *blocks[BLOCKS];
    void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    allocate allocate_there;
    size_t before = seen_count;
    CHECK(plugin != NULL, "%s", dlerror());
    *(void **)&allocate_there = dlsym(plugin, "plugin_allocate");
    CHECK(allocate_there != NULL, "%s", dlerror());
    uintptr_t place = (uintptr_t)allocate_there;
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = allocate_there(BYTES);
        CHECK(blocks[i] != NULL, "no memory");
        uintptr_t unit = (uintptr_t)blocks[i] >> UNIT_SHIFT;
        CHECK(!was_seen(unit, before), "%p was of a plugin that was unloaded", blocks[i]);
        if (!was_seen(unit, seen_count) && seen_count < SEEN_MAX)
            seen[seen_count++] = unit;
    }
    for (size_t i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    CHECK(dlclose(plugin) == 0, "%s", dlerror());
    return place;
}

int main(int argc, char **argv)
{
    CHECK(argc == 3, "usage: intern_retired PLUGIN PLUGIN");
    check_is_calmalloc();
    check_time_limit(60);
    void (*read_statistics)(struct calm_stats *);
    *(void **)&read_statistics = check_symbol("calm_stats_read");
    uintptr_t place = 0;
    unsigned same = 0;
    for (unsigned round = 0; round < ROUNDS; round++) {
        uintptr_t now = turn(argv[1 + round % 2]);
        same += now == place;
        place = now;
    }
    CHECK(same > 0, "the plugins were never at the same place, so nothing was tested");
    struct calm_stats stats;
    read_statistics(&stats);
    CHECK(stats.retired_sites >= ROUNDS - 1, "%zu sites were retired", (size_t)stats.retired_sites);
    CHECK(stats.interned_sites > stats.retired_sites, "no site is left");
    check_heap();
    return 0;
}
