/*
 * topology.c: reads the kernel's lists of CPUs that share a cache: one file per cache, not per CPU,
 * and a few to find the last-level cache.
 *
 * Unreadable or inconsistent lists give one group: only speed depends on the groups.
 */
#include "os/linux/topology.h"

#include "base/bits.h"
#include "base/text.h"
#include "os/linux/lines.h"
#include "os/linux/syscall.h"
#include "os/os.h"

enum {
    CACHES_MAX = 10,
    GROUPS_MAX = 255,
    PATH_BYTES = 256,
    LIST_BYTES = 2048,
    MASK_WORDS = 64,
    NONE = -1
};

/* Reads the list of CPUs that share a CPU's cache number `cache`, such as "0-7,128-135". */
static bool read_list(const char *root, unsigned cpu, unsigned cache, char list[LIST_BYTES])
{
    struct lines file;
    char path[PATH_BYTES];
    struct text text = text_begin(path, sizeof path);
    text_format(&text, "%s/cpu%u/cache/index%u/shared_cpu_list", root, cpu, cache);
    if (text.is_cut || lines_open(&file, path) != 0)
        return false;
    bool is_read = lines_read(&file, list, LIST_BYTES) > 0;
    lines_close(&file);
    return is_read;
}

/* The number of a CPU's last-level cache; NONE: unknown. */
static int last_cache(const char *root, unsigned cpu)
{
    char list[LIST_BYTES];
    unsigned cache = 0;
    while (cache < CACHES_MAX && read_list(root, cpu, cache, list))
        cache++;
    return cache == 0 ? NONE : (int)cache - 1;
}

/* Marks the CPUs of a list. False: one of them is marked already, or the list is malformed. */
static bool mark_all(char *list, unsigned mark, uint8_t *marks, unsigned cpus)
{
    for (char *at = list; *at != '\0' || at == list; at += *at == ',') {
        char *digits = at;
        uint64_t first = lines_number(&at, 10), last = first;
        bool is_number = at != digits;
        if (*at == '-') {
            digits = ++at;
            last = lines_number(&at, 10);
            is_number = is_number && at != digits;
        }
        if (!is_number || (*at != ',' && *at != '\0'))
            return false;
        for (uint64_t cpu = first; cpu <= last && cpu < cpus; cpu++) {
            if (marks[cpu] != 0)
                return false;
            marks[cpu] = (uint8_t)mark;
        }
    }
    return true;
}

/* Marks each CPU with its group's number, from 1 on. 0: unknown. */
static unsigned mark_groups(const char *root, const uint64_t *usable, uint8_t *marks, unsigned cpus)
{
    char list[LIST_BYTES];
    unsigned groups = 0;
    int cache = NONE;
    for (unsigned cpu = 0; cpu < cpus; cpu++) {
        bool is_usable = (usable[cpu / 64] >> cpu % 64 & 1) != 0;
        if (!is_usable || marks[cpu] != 0)
            continue;
        if (cache == NONE && (cache = last_cache(root, cpu)) == NONE)
            return 0;
        if (groups == GROUPS_MAX || !read_list(root, cpu, (unsigned)cache, list) ||
            !mark_all(list, ++groups, marks, cpus) || marks[cpu] != groups)
            return 0;
    }
    return groups;
}

unsigned topology_read(const char *root, const uint64_t *usable, uint8_t *group_of_cpu,
                       unsigned cpus)
{
    __builtin_memset(group_of_cpu, 0, cpus);
    unsigned groups = mark_groups(root, usable, group_of_cpu, cpus);
    for (unsigned cpu = 0; cpu < cpus; cpu++)
        group_of_cpu[cpu] = groups == 0 || group_of_cpu[cpu] == 0 ? 0 : group_of_cpu[cpu] - 1;
    return groups == 0 ? 1 : groups;
}

unsigned os_cache_groups(uint8_t *group_of_cpu, unsigned cpus)
{
    uint64_t usable[MASK_WORDS] = {0};
    system_call(SYS_sched_getaffinity, 0, sizeof usable, (long)usable, 0, 0, 0);
    return topology_read("/sys/devices/system/cpu", usable, group_of_cpu,
                         (unsigned)size_min(cpus, MASK_WORDS * 64));
}
