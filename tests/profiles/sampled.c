/*
 * sampled.c: keeps blocks of many sizes from three functions while the profiler samples them, and
 * dumps the profile in each format, with nothing allocated in between.
 *
 *     profiles_sampled FOLDER
 *
 * Prints the live bytes and blocks of each function, as they are.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/attr.h"
#include "calmalloc/calmalloc.h"

enum { BLOCKS = 30000, MEAN_BYTES = 8192, SEED = 11, PLACES = 3 };

static void *kept[PLACES][BLOCKS];
static unsigned long live_bytes[PLACES];

NOINLINE static void *equal_site(unsigned i)
{
    (void)i;
    live_bytes[0] += 96;
    return calm_malloc(96);
}

NOINLINE static void *mixed_site(unsigned i)
{
    size_t size = i % 100 == 0 ? 20000 : 16 + i % 7 * 30;
    live_bytes[1] += size;
    return calm_malloc(size);
}

/* Most of its blocks do not live. */
NOINLINE static void *brief_site(unsigned i)
{
    void *block = calm_malloc(1000);
    if (i % 10 != 0) {
        calm_free(block);
        return NULL;
    }
    live_bytes[2] += 1000;
    return block;
}

static bool dump(const char *folder, const char *format)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s/sampled.%s", folder, format) >= (int)sizeof path)
        return false;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    return fd >= 0 && calm_profile_dump(fd, format) == 0 && close(fd) == 0;
}

int main(int argc, char **argv)
{
    if (argc != 2 || calm_profile_start(MEAN_BYTES, SEED) != 0)
        return 2;
    for (unsigned i = 0; i < BLOCKS; i++) {
        kept[0][i] = equal_site(i);
        kept[1][i] = mixed_site(i);
        kept[2][i] = brief_site(i);
    }
    calm_profile_stop();
    if (!dump(argv[1], "pprof") || !dump(argv[1], "heap_v2") || !dump(argv[1], "collapsed"))
        return 1;
    static const char *const names[PLACES] = {"equal_site", "mixed_site", "brief_site"};
    for (unsigned place = 0; place < PLACES; place++)
        printf("%s %lu\n", names[place], live_bytes[place]);
    return 0;
}
