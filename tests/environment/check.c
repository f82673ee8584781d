/*
 * check.c: see check.h; how the library is found is check_loaded.c or check_linked.c. Files of
 * /proc are read with plain system calls into buffers on the stack.
 */
#define _GNU_SOURCE

#include "check.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "calmalloc/calmalloc.h"

void check_fail(const char *file, int line, const char *format, ...)
{
    char words[1000];
    int error = errno;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    dprintf(STDERR_FILENO, "%s:%d: %s (errno is %d)\n", file, line, words, error);
    _exit(1);
}

void check_skip(const char *reason)
{
    dprintf(STDOUT_FILENO, "skipped: %s\n", reason);
    _exit(77);
}

void check_heap(void)
{
    const char *(*verify)(void);
    *(void **)&verify = check_symbol("calm_verify");
    const char *verdict = verify();
    CHECK(verdict == NULL, "calm_verify: %s", verdict);
}

size_t own_caches(void)
{
    struct calm_stats stats;
    void (*read_stats)(struct calm_stats *);
    *(void **)&read_stats = check_symbol("calm_stats_read");
    read_stats(&stats);
    return stats.threads;
}

void statistics(char *text, size_t capacity)
{
    int (*write_json)(int);
    *(void **)&write_json = check_symbol("calm_stats_json");
    int file = (int)syscall(SYS_memfd_create, "statistics", 0);
    CHECK(file >= 0 && write_json(file) == 0, "no statistics");
    ssize_t length = pread(file, text, capacity - 1, 0);
    CHECK(length > 0, "no statistics");
    text[length] = '\0';
    close(file);
}

void check_is_by_cores(void)
{
    char text[32 * 1024];
    free(hidden(malloc(1)));
    statistics(text, sizeof text);
    if (strstr(text, "\"caches_by\":\"core\"") != NULL)
        return;
    char *reason = strstr(text, "\"no_cores\":\"");
    CHECK(reason != NULL, "threads have caches of their own, and the statistics do not say why");
    reason += strlen("\"no_cores\":\"");
    reason[strcspn(reason, "\"")] = '\0';
    check_skip(reason);
}

void check_time_limit(unsigned seconds)
{
    alarm(seconds);
}

void check_is_limited_to(size_t bytes, char **argv)
{
    struct rlimit limit;
    getrlimit(RLIMIT_AS, &limit);
    if (limit.rlim_cur == bytes)
        return;
    limit.rlim_cur = limit.rlim_max = bytes;
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit");
    execv("/proc/self/exe", argv);
    CHECK(false, "cannot start again under the limit");
}

void check_child_succeeds(pid_t child, const char *what)
{
    int status = 0;
    CHECK(child > 0, "%s: cannot start", what);
    CHECK(waitpid(child, &status, 0) == child, "%s: cannot wait", what);
    CHECK(!WIFSIGNALED(status), "%s: killed by %s", what, strsignal(WTERMSIG(status)));
    CHECK(WEXITSTATUS(status) == 0, "%s: exited with %d", what, WEXITSTATUS(status));
}

static ssize_t read_all(const char *path, char *buffer, size_t capacity)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return -1;
    ssize_t length = 0, more;
    while ((more = read(file, buffer + length, capacity - 1 - (size_t)length)) > 0)
        length += more;
    close(file);
    buffer[length] = '\0';
    return length;
}

static size_t figure_bytes(const char *path, const char *name)
{
    char text[4096];
    CHECK(read_all(path, text, sizeof text) > 0, "no %s", path);
    const char *at = strstr(text, name);
    CHECK(at != NULL, "no %s in %s", name, path);
    return strtoul(at + strlen(name), NULL, 10) * KIB;
}

size_t resident_bytes(void)
{
    return figure_bytes("/proc/self/smaps_rollup", "\nRss:");
}

size_t anonymous_bytes(void)
{
    return figure_bytes("/proc/self/smaps_rollup", "\nAnonymous:");
}

size_t huge_bytes(void)
{
    return figure_bytes("/proc/self/smaps_rollup", "\nAnonHugePages:");
}

bool huge_pages_are_asked_for(void)
{
    FILE *smaps = fopen("/proc/self/smaps", "r");
    char line[512];
    bool is_any = false;
    CHECK(smaps != NULL, "no /proc/self/smaps");
    while (fgets(line, sizeof line, smaps) != NULL)
        is_any = is_any || (strncmp(line, "VmFlags:", 8) == 0 && strstr(line, " hg") != NULL);
    fclose(smaps);
    return is_any;
}

bool huge_pages_can_be_had(void)
{
    size_t bytes = 4 * MIB, before = huge_bytes();
    char *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(start != MAP_FAILED, "no memory");
    madvise(start, bytes, MADV_HUGEPAGE);
    memset(start, 1, bytes);
    bool is_any = huge_bytes() > before;
    munmap(start, bytes);
    return is_any;
}

size_t data_bytes(void)
{
    return figure_bytes("/proc/self/status", "\nVmData:");
}

size_t locked_bytes(void)
{
    return figure_bytes("/proc/self/status", "\nVmLck:");
}

size_t virtual_bytes(void)
{
    char text[200];
    CHECK(read_all("/proc/self/statm", text, sizeof text) > 0, "no /proc/self/statm");
    return strtoul(text, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE);
}

size_t mapping_count(void)
{
    char part[8192];
    size_t count = 0;
    ssize_t length;
    int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    CHECK(file >= 0, "no /proc/self/maps");
    while ((length = read(file, part, sizeof part)) > 0)
        for (ssize_t i = 0; i < length; i++)
            count += part[i] == '\n';
    close(file);
    return count;
}

void tasks_visit_in(const char *tasks, void (*visit)(const char *task, void *sum), void *sum)
{
    char part[4096];
    long length;
    int folder = open(tasks, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(folder >= 0, "no %s", tasks);
    while ((length = syscall(SYS_getdents64, folder, part, sizeof part)) > 0)
        for (long at = 0; at < length;) {
            unsigned short entry_bytes;
            const char *name = part + at + offsetof(struct dirent64, d_name);
            memcpy(&entry_bytes, part + at + offsetof(struct dirent64, d_reclen),
                   sizeof entry_bytes);
            if (name[0] != '.')
                visit(name, sum);
            at += entry_bytes;
        }
    close(folder);
}

void tasks_visit(void (*visit)(const char *task, void *sum), void *sum)
{
    tasks_visit_in("/proc/self/task", visit, sum);
}

void task_rights(const char *tasks, const char *task, char *out, size_t capacity)
{
    static const char *const wanted[] = {"Uid", "Gid", "Groups", "Cap", "NoNewPrivs", "Seccomp"};
    char path[64], text[8192];
    snprintf(path, sizeof path, "%s/%s/status", tasks, task);
    if (read_all(path, text, sizeof text) < 0)
        text[0] = '\0';
    size_t used = 0;
    out[0] = '\0';
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n"))
        for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
            if (strncmp(line, wanted[i], strlen(wanted[i])) == 0 && used < capacity)
                used += (size_t)snprintf(out + used, capacity - used, "%s; ", line);
}

static void count_task(const char *task, void *sum)
{
    (void)task;
    ++*(size_t *)sum;
}

size_t task_count(void)
{
    size_t count = 0;
    tasks_visit(count_task, &count);
    return count;
}

/* The second number of a task's schedstat is its time in the run queue, in nanoseconds. */
static void add_wait(const char *task, void *sum)
{
    char path[64], text[100];
    snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", task);
    const char *second = read_all(path, text, sizeof text) > 0 ? strchr(text, ' ') : NULL;
    *(double *)sum += second == NULL ? 0 : strtod(second, NULL) * 1e-9;
}

double seconds_without_processor(void)
{
    double sum = 0;
    tasks_visit(add_wait, &sum);
    return sum;
}

size_t resident_bytes_within(size_t target, double seconds)
{
    double start = seconds_now(), waited_before = seconds_without_processor(), waited = 0;
    size_t bytes = resident_bytes();
    while (bytes > target && seconds_now() - start < seconds + waited) {
        sleep_ms(20);
        double waited_now = seconds_without_processor() - waited_before;
        waited = waited_now > waited ? waited_now : waited;
        bytes = resident_bytes();
    }
    printf("%zu MiB resident after %.2f s, of which %.2f s without a processor\n", bytes / MIB,
           seconds_now() - start, waited);
    return bytes;
}

double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void sleep_ms(unsigned milliseconds)
{
    struct timespec rest = {milliseconds / 1000, (long)(milliseconds % 1000) * 1000000};
    while (nanosleep(&rest, &rest) != 0)
        continue;
}

void *hidden(void *pointer)
{
    __asm__ volatile("" : "+r"(pointer) : : "memory");
    return pointer;
}

void *book(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED, "no memory for the books");
    return memory;
}

unsigned long random_next(unsigned long *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

void block_sign(void *block, size_t size)
{
    uintptr_t signature = (uintptr_t)block ^ size;
    size_t part = size < sizeof signature ? size : sizeof signature;
    memcpy(block, &signature, part);
    memcpy((char *)block + size - part, &signature, part);
}

bool block_is_signed(const void *block, size_t size)
{
    uintptr_t signature = (uintptr_t)block ^ size;
    size_t part = size < sizeof signature ? size : sizeof signature;
    bool is_last_good = memcmp((const char *)block + size - part, &signature, part) == 0;
    return is_last_good && (size < 2 * part || memcmp(block, &signature, part) == 0);
}
