/*
 * process.c: facts of the machine and the process, the clock, the environment, output.
 */
#define _GNU_SOURCE

#include "os/os.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/check.h"
#include "os/linux/auxiliary.h"
#include "os/linux/clock.h"
#include "os/linux/lines.h"
#include "os/linux/syscall.h"

/* Counts the CPUs that this process may use. The kernel writes as many bytes as its masks have, so
 * every CPU's number is below *limit. */
static unsigned usable_cpus(unsigned *limit)
{
    uint64_t mask[64] = {0};
    long bytes = system_call(SYS_sched_getaffinity, 0, sizeof mask, (long)mask, 0, 0, 0);
    unsigned count = 0;
    for (long i = 0; i < bytes / 8; i++)
        count += bit_count(mask[i]);
    *limit = bytes > 0 ? (unsigned)bytes * 8 : UINT32_MAX;
    return count > 0 ? count : 1;
}

/* The word in brackets. */
static enum os_huge huge_setting(size_t page_bytes)
{
    struct lines lines;
    char words[64];
    if (page_bytes != 4096 ||
        lines_open(&lines, "/sys/kernel/mm/transparent_hugepage/enabled") != 0)
        return OS_HUGE_NEVER;
    const char *word = lines_read(&lines, words, sizeof words) == 1 ? words : "";
    lines_close(&lines);
    while (*word != '\0' && *word != '[')
        word++;
    if (*word != '[' || word[1] == 'n')
        return OS_HUGE_NEVER;
    return word[1] == 'a' ? OS_HUGE_ALWAYS : OS_HUGE_ASKED;
}

/* SIZE_MAX: none, or it is not known. */
static size_t limit_of(int resource)
{
    struct rlimit limit;
    bool is_known = system_call(SYS_prlimit64, 0, resource, 0, (long)&limit, 0, 0) == 0;
    return is_known && limit.rlim_cur != RLIM_INFINITY ? limit.rlim_cur : SIZE_MAX;
}

void os_start(struct os_facts *out)
{
    struct sysinfo info;
    long result = system_call(SYS_sysinfo, (long)&info, 0, 0, 0, 0, 0);
    unsigned core_limit;
    unsigned cpu_count = usable_cpus(&core_limit);
    struct os_limits limits;
    os_limits_read(&limits, OS_LIMITS_START);
    *out = (struct os_facts){
        .page_bytes = auxiliary_value(AT_PAGESZ),
        .memory_bytes = result == 0 ? (size_t)info.totalram * info.mem_unit : (size_t)1 << 32,
        .cpu_count = (unsigned)size_min(cpu_count, limits.cpus),
        .memory_limit_bytes = size_min(limits.memory_max, limits.memory_high),
        .core_limit = core_limit,
        .huge_pages = huge_setting(auxiliary_value(AT_PAGESZ)),
        .address_limit_bytes = size_min(limit_of(RLIMIT_AS), limit_of(RLIMIT_DATA)),
        .is_secure = auxiliary_value(AT_SECURE) != 0,
    };
}

unsigned os_cpu(void)
{
    unsigned cpu;
    return system_call(SYS_getcpu, (long)&cpu, 0, 0, 0, 0, 0) == 0 ? cpu : UINT_MAX;
}

uint64_t os_clock_ms(void)
{
    struct timespec now = clock_read(CLOCK_MONOTONIC_COARSE);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

uint64_t os_clock_real_ns(void)
{
    struct timespec now = clock_read(CLOCK_REALTIME);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void os_random(void *out, size_t size)
{
    enum { WITHOUT_WAITING = 1 };
    if (system_call(SYS_getrandom, (long)out, (long)size, WITHOUT_WAITING, 0, 0, 0) == (long)size)
        return;
    const char *seed = (const char *)auxiliary_value(
        AT_RANDOM); /* 16 bytes, given to every process */
    for (size_t i = 0; i < size; i++)
        ((char *)out)[i] = seed != NULL ? seed[i % 16] : (char)(os_clock_ms() >> (i % 8));
}

int os_write(int fd, const char *words, size_t length)
{
    while (length > 0) {
        long written = system_call(SYS_write, fd, (long)words, (long)length, 0, 0, 0);
        if (written == -EINTR)
            continue;
        if (written <= 0)
            return written == 0 ? -EIO : (int)written;
        words += written;
        length -= (size_t)written;
    }
    return 0;
}

bool os_file_identity(int fd, uint64_t out[2])
{
    struct stat facts;
    if (system_call(SYS_fstat, fd, (long)&facts, 0, 0, 0, 0) != 0)
        return false;
    out[0] = facts.st_dev;
    out[1] = facts.st_ino;
    return true;
}

/* The value in an entry NAME=VALUE, or NULL. */
static const char *value_of(const char *entry, const char *name)
{
    while (*name != '\0' && *entry == *name) {
        entry++;
        name++;
    }
    return *name == '\0' && *entry == '=' ? entry + 1 : NULL;
}

const char *os_environment(const char *name)
{
    const char *value = NULL;
    for (char *const *entry = environ; entry != NULL && *entry != NULL && value == NULL; entry++)
        value = value_of(*entry, name);
    return value;
}

uint32_t os_process_id(void)
{
    return (uint32_t)system_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

uint32_t os_parent_id(void)
{
    return (uint32_t)system_call(SYS_getppid, 0, 0, 0, 0, 0, 0);
}

void os_set_errno(int error)
{
    errno = error;
}

void check_write(const char *words, size_t length)
{
    os_write(STDERR_FILENO, words, length);
}

/* Signals this thread first. The thread may block the signal, so then any thread of the process;
 * abort() does not return. */
void check_abort(void)
{
    long process = system_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
    system_call(SYS_tgkill, process, system_call(SYS_gettid, 0, 0, 0, 0, 0, 0), SIGABRT, 0, 0, 0);
    system_call(SYS_kill, process, SIGABRT, 0, 0, 0, 0);
    abort();
}
