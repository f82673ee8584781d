/*
 * cgroup.c: reads the limits of the process's control groups.
 *
 * /proc/self/cgroup has a line for each hierarchy: "0::/path" for version 2, "4:memory:/path" and
 * "2:cpu,cpuacct:/path" for version 1. The group's files are below the usual mount point of its
 * hierarchy, as are those of its ancestors, whose limits hold as well. A container may see its own
 * group at the mount point although the line has the host's path, so the mount point itself is
 * always read, and missing files are skipped.
 *
 * Owner: any thread; no state. It may run deep in a small stack: 4 KiB are enough.
 */
#define _GNU_SOURCE

#include "os/linux/cgroup.h"

#include <errno.h>
#include <fcntl.h>

#include "base/bits.h"
#include "base/text.h"
#include "os/linux/lines.h"
#include "os/linux/syscall.h"

enum {
    LINE_BYTES = 512,
    VALUE_BYTES = 64,
    PATH_BYTES = 640,
    LINES_MAX = 64,   /* hierarchies; a kernel has a dozen  */
    LEVELS_MAX = 32,  /* nested groups                      */
    CPUS_MAX = 65536, /* CPU time in CPUs; more is no limit */
};

/* Version 1 writes a number near the largest for "no limit". */
#define NO_LIMIT ((uint64_t)1 << 60)

struct reading {
    struct os_limits limits;
    const char *root;
    enum os_limits_use use;
    bool has_memory; /* some file states memory limits        */
    bool has_failed; /* a file exists and is unreadable       */
    bool has_old;    /* memory is in a hierarchy of version 1 */
};

/* Reads the start of a file. Returns 0 or -errno. */
static int read_file(const char *path, char words[VALUE_BYTES])
{
    long fd = system_call(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
    if (fd < 0)
        return (int)fd;
    long got = system_call(SYS_read, fd, (long)words, VALUE_BYTES - 1, 0, 0, 0);
    system_call(SYS_close, fd, 0, 0, 0, 0, 0);
    words[got < 0 ? 0 : got] = '\0';
    return got > 0 ? 0 : -EIO;
}

/* Reads the start of a file in a folder. False: missing or unreadable. */
static bool read_words(struct reading *reading, const struct text *folder, const char *name,
                       char words[VALUE_BYTES])
{
    struct text path = *folder; /* appends the name to the folder's buffer for a moment */
    text_add_char(&path, '/');
    text_add(&path, name);
    int error = path.is_cut ? -ENOENT : read_file(path.start, words);
    folder->start[folder->length] = '\0';
    if (error != 0 && error != -ENOENT && error != -ENOTDIR && error != -ENAMETOOLONG)
        reading->has_failed = true;
    return error == 0;
}

/* Parses a number that ends at a newline or a space; else UINT64_MAX, as for "max" and "-1". */
static uint64_t number_in(char **words)
{
    char *start = *words;
    uint64_t number = lines_number(words, 10);
    bool is_number = *words != start && (**words == '\n' || **words == ' ') && number < NO_LIMIT;
    return is_number ? number : UINT64_MAX;
}

/* Lowers *least to the file's number. False: no such file. */
static bool read_bytes(struct reading *reading, const struct text *folder, const char *name,
                       size_t *least)
{
    char buffer[VALUE_BYTES], *words = buffer;
    if (!read_words(reading, folder, name, buffer))
        return false;
    reading->has_memory = true;
    *least = size_min(*least, number_in(&words));
    return true;
}

static void note_quota(struct reading *reading, uint64_t quota, uint64_t period)
{
    if (quota == UINT64_MAX || period == UINT64_MAX || quota == 0 || period == 0)
        return;
    uint64_t cpus = quota / period + (quota % period != 0);
    if (cpus < CPUS_MAX)
        reading->limits.cpus = (unsigned)size_min(reading->limits.cpus, cpus);
}

static void read_memory(struct reading *reading, const struct text *folder)
{
    if (read_bytes(reading, folder, "memory.max", &reading->limits.memory_max))
        read_bytes(reading, folder, "memory.high", &reading->limits.memory_high);
}

static void read_old_memory(struct reading *reading, const struct text *folder)
{
    if (read_bytes(reading, folder, "memory.limit_in_bytes", &reading->limits.memory_max) &&
        reading->use != OS_LIMITS_START)
        read_bytes(reading, folder, "memory.soft_limit_in_bytes", &reading->limits.memory_high);
}

/* "QUOTA PERIOD", in microseconds. */
static void read_cpu(struct reading *reading, const struct text *folder)
{
    char buffer[VALUE_BYTES], *words = buffer;
    if (!read_words(reading, folder, "cpu.max", buffer))
        return;
    uint64_t quota = number_in(&words);
    if (quota == UINT64_MAX || *words != ' ')
        return;
    words++;
    note_quota(reading, quota, number_in(&words));
}

static void read_old_cpu(struct reading *reading, const struct text *folder)
{
    char buffer[VALUE_BYTES], *words = buffer;
    if (!read_words(reading, folder, "cpu.cfs_quota_us", buffer))
        return;
    uint64_t quota = number_in(&words);
    if (quota == UINT64_MAX || !read_words(reading, folder, "cpu.cfs_period_us", buffer))
        return;
    words = buffer;
    note_quota(reading, quota, number_in(&words));
}

/* Whether a path leads below a mount. Groups outside the process's namespace do not. */
static bool is_inside(const char *group)
{
    return group[0] == '/' && !(group[1] == '.' && group[2] == '.');
}

/* Removes the last name from a path that is longer than `least`. */
static void cut(struct text *path, size_t least)
{
    while (path->length > least && path->start[path->length - 1] != '/')
        path->length--;
    while (path->length > least && path->start[path->length - 1] == '/')
        path->length--;
    path->start[path->length] = '\0';
}

/* Calls `read_one` for the group and each ancestor, up to the mount point. A path that is too long
 * begins further up. */
static void climb(struct reading *reading, const char *mount, const char *group,
                  void (*read_one)(struct reading *, const struct text *))
{
    char path[PATH_BYTES];
    struct text folder = text_begin(path, sizeof path);
    text_format(&folder, "%s%s", reading->root, mount);
    size_t least = folder.length;
    if (folder.is_cut)
        return;
    text_add(&folder, is_inside(group) ? group : "/");
    if (folder.is_cut || path[folder.length - 1] == '/')
        cut(&folder, least);
    folder.is_cut = false;
    for (unsigned level = 0; level < LEVELS_MAX; level++) {
        read_one(reading, &folder);
        if (folder.length <= least)
            return;
        cut(&folder, least);
    }
}

/* Whether a comma-separated list has the name. */
static bool has_name(const char *list, const char *list_end, const char *name)
{
    while (list < list_end) {
        const char *at = name;
        while (list < list_end && *list != ',' && *list == *at) {
            list++;
            at++;
        }
        if (*at == '\0' && (list == list_end || *list == ','))
            return true;
        while (list < list_end && *list != ',')
            list++;
        list += list < list_end;
    }
    return false;
}

/* Reads a line NUMBER:CONTROLLERS:PATH. Returns whether it is version 2's, which is the last. */
static bool read_line(struct reading *reading, char *line)
{
    char *at = line;
    bool is_new = lines_number(&at, 10) == 0 && at[0] == ':' && at[1] == ':';
    if (*at++ != ':')
        return false;
    const char *list = at;
    while (*at != ':' && *at != '\0')
        at++;
    if (*at == '\0')
        return false;
    const char *group = at + 1;
    if (has_name(list, at, "memory")) {
        reading->has_old = true;
        climb(reading, "/memory", group, read_old_memory);
    }
    if (has_name(list, at, "cpu") && reading->use == OS_LIMITS_START)
        climb(reading, "/cpu", group, read_old_cpu);
    if (is_new && !reading->has_old) { /* a controller of version 1 is not in version 2 */
        climb(reading, "", group, read_memory);
        if (reading->use == OS_LIMITS_START)
            climb(reading, "", group, read_cpu);
    }
    return is_new;
}

bool cgroup_read(const char *groups, const char *root, enum os_limits_use use,
                 struct os_limits *out)
{
    const struct os_limits none = {SIZE_MAX, SIZE_MAX, UINT32_MAX};
    struct reading reading = {.limits = none, .root = root, .use = use};
    struct lines file;
    char line[LINE_BYTES];
    *out = none;
    if (lines_open(&file, groups) != 0)
        return false;
    for (unsigned i = 0; i < LINES_MAX && lines_read(&file, line, sizeof line) > 0; i++)
        if (read_line(&reading, line))
            break;
    lines_close(&file);
    if (!reading.has_failed)
        *out = reading.limits;
    return reading.has_memory && !reading.has_failed;
}

bool os_limits_read(struct os_limits *out, enum os_limits_use use)
{
    return cgroup_read("/proc/self/cgroup", "/sys/fs/cgroup", use, out);
}
