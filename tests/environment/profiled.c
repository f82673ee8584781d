/*
 * profiled.c: whole programs under the profiler. Without an argument: every form of request is
 * sampled when all are, a leak comes out on top, whoever runs on whichever cache. With "options":
 * a program that only has options is profiled from its start, on a signal and at its exit.
 *
 * Seen to fail with a calloc that is not sampled, a handler that leaves an errno of its own, and no
 * profile at exit.
 */
#define _GNU_SOURCE

#include "check.h"

#include <calmalloc/calmalloc.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LEAKED = 20000, LEAKED_BYTES = 200, PROFILE_FD = 99, TEXT_MAX = 1 << 20 };

static __typeof__(calm_profile_start) *profile_start;
static __typeof__(calm_profile_stop) *profile_stop;
static __typeof__(calm_profile_dump) *profile_dump;

static unsigned long samples(void)
{
    static char text[64 * 1024];
    statistics(text, sizeof text);
    const char *at = strstr(text, "\"profile_samples\":");
    CHECK(at != NULL, "the statistics do not count samples");
    return strtoul(at + sizeof "\"profile_samples\":" - 1, NULL, 10);
}

/* Evaluates a request and ends the program unless it was sampled once. */
#define CHECK_SAMPLED(request)                                                                     \
    do {                                                                                           \
        unsigned long before = samples();                                                          \
        void *block = hidden(request);                                                             \
        CHECK(block != NULL, "%s: no memory", #request);                                           \
        unsigned long more = samples() - before;                                                   \
        CHECK(more == 1, "%s: sampled %lu times", #request, more);                                 \
        free(block);                                                                               \
    } while (0)

typedef void *new_form(size_t);
typedef void *new_aligned_form(size_t, size_t);
typedef void *new_nothrow_form(size_t, const void *);
typedef void delete_sized_form(void *, size_t);

static void *posix(size_t align, size_t bytes)
{
    void *block = NULL;
    return posix_memalign(&block, align, bytes) == 0 ? block : NULL;
}

static void *by_new_sized(size_t bytes)
{
    void *block = ((new_form *)(uintptr_t)check_symbol("_Znwm"))(bytes);
    ((delete_sized_form *)(uintptr_t)check_symbol("_ZdlPvm"))(block, bytes);
    return malloc(0); /* too small for every one to be sampled */
}

static void every_form_is_sampled(void)
{
    static const char no_throw;
    static const size_t sizes[] = {100, 5000, 40000, 300000, 9000000};
    CHECK(profile_start(1, 1) == 0, "it does not start");
    CHECK(profile_start(1, 1) == EBUSY, "it starts twice");
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t n = sizes[i];
        CHECK_SAMPLED(malloc(n));
        CHECK_SAMPLED(calloc(1, n));
        CHECK_SAMPLED(realloc(NULL, n));
        CHECK_SAMPLED(reallocarray(NULL, n, 1));
        CHECK_SAMPLED(aligned_alloc(64, n));
        CHECK_SAMPLED(memalign(4096, n));
        CHECK_SAMPLED(posix(128, n));
        CHECK_SAMPLED(valloc(n));
        CHECK_SAMPLED(pvalloc(n));
        CHECK_SAMPLED(((new_form *)(uintptr_t)check_symbol("calm_malloc"))(n));
        CHECK_SAMPLED(((new_form *)(uintptr_t)check_symbol("__libc_malloc"))(n));
        CHECK_SAMPLED(((new_form *)(uintptr_t)check_symbol("_Znwm"))(n));
        CHECK_SAMPLED(((new_form *)(uintptr_t)check_symbol("_Znam"))(n));
        CHECK_SAMPLED(
            ((new_aligned_form *)(uintptr_t)check_symbol("_ZnwmSt11align_val_t"))(n, 256));
        CHECK_SAMPLED(
            ((new_nothrow_form *)(uintptr_t)check_symbol("_ZnwmRKSt9nothrow_t"))(n, &no_throw));
        unsigned long before = samples();
        free(by_new_sized(n));
        CHECK(samples() - before >= 1, "new with a sized delete: not sampled");
    }
    profile_stop();
    unsigned long before = samples();
    free(hidden(malloc(100)));
    CHECK(samples() == before, "a request after the stop is sampled");
    check_heap();
}

/* The largest number at the end of a line of the collapsed format, and the next. */
static void tops(unsigned long top[2])
{
    static char text[TEXT_MAX];
    int file = (int)syscall(SYS_memfd_create, "profile", 0);
    CHECK(profile_dump(file, "collapsed") == 0, "no profile");
    CHECK(profile_dump(file, "nonsense") == EINVAL, "a format that does not exist");
    ssize_t length = pread(file, text, sizeof text - 1, 0);
    CHECK(length >= 0, "the profile cannot be read");
    close(file);
    text[length] = '\0';
    top[0] = top[1] = 0;
    for (char *line = text, *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
        *end = '\0';
        unsigned long number = strtoul(strrchr(line, ' '), NULL, 10);
        unsigned long low = number < top[0] ? number : top[0];
        top[0] = number > top[0] ? number : top[0];
        top[1] = low > top[1] ? low : top[1];
    }
}

static void *leaked[LEAKED];

__attribute__((noinline)) static void leak(void)
{
    for (size_t i = 0; i < LEAKED; i++)
        leaked[i] = hidden(malloc(LEAKED_BYTES));
}

static void *churn(void *context)
{
    for (size_t i = 0; i < 300000; i++)
        free(hidden(malloc(16 + i % 500)));
    return context;
}

static void free_leaked(void)
{
    for (size_t i = 0; i < LEAKED; i++)
        free(leaked[i]);
}

static void check_top(unsigned long wanted)
{
    unsigned long top[2];
    tops(top);
    CHECK(top[0] > wanted / 2 && top[0] < wanted * 2, "on top are %lu bytes", top[0]);
    CHECK(top[1] < top[0] / 4, "next are %lu bytes", top[1]);
}

static void a_leak_is_on_top(void)
{
    pthread_t threads[3];
    CHECK(profile_start(16 * 1024, 1) == 0, "it does not start again");
    for (size_t i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, churn, NULL) == 0, "no thread");
    leak();
    for (size_t i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    check_top((unsigned long)LEAKED * LEAKED_BYTES);
    pid_t child = fork();
    if (child == 0) {
        check_top((unsigned long)LEAKED * LEAKED_BYTES);
        free_leaked();
        churn(NULL);
        unsigned long top[2];
        tops(top);
        CHECK(top[0] < 100000, "%lu bytes are left in the child", top[0]);
        check_heap();
        _exit(0);
    }
    check_child_succeeds(child, "the fork's child");
    profile_stop();
    check_top((unsigned long)LEAKED * LEAKED_BYTES);
    free_leaked();
    unsigned long top[2];
    tops(top);
    CHECK(top[0] < 100000, "%lu bytes are left", top[0]);
    check_heap();
}

static void check_gzip(int fd, const char *what)
{
    unsigned char magic[3] = {0};
    struct stat facts;
    CHECK(fstat(fd, &facts) == 0 && facts.st_size > 100, "%s: %ld bytes", what,
          (long)facts.st_size);
    CHECK(pread(fd, magic, sizeof magic, 0) == 3 && magic[0] == 0x1f && magic[1] == 0x8b,
          "%s: no gzip", what);
}

/* Starts itself with options only, and looks at the two files. */
static void options_are_enough(const char *self)
{
    char folder[] = "profiled-XXXXXX", name[64];
    CHECK(mkdtemp(folder) != NULL && chdir(folder) == 0, "no folder");
    int file = (int)syscall(SYS_memfd_create, "profile", 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(file, PROFILE_FD);
        setenv("CALM_OPTIONS", "profile_kb=16,profile_fd=99,profile_signal=10", 1);
        execl(self, self, "child", (char *)NULL);
        _exit(127);
    }
    check_child_succeeds(child, "the program with options");
    check_gzip(file, "the profile at exit");
    for (int number = 0; number < 2; number++) {
        snprintf(name, sizeof name, "calm.%d.%d.pb.gz", (int)child, number);
        int fd = open(name, O_RDONLY);
        CHECK(fd >= 0, "no file of signal %d", number);
        check_gzip(fd, name);
        close(fd);
        unlink(name);
    }
    CHECK(chdir("..") == 0 && rmdir(folder) == 0, "the folder has more files");
}

int main(int count, char **arguments)
{
    check_is_calmalloc();
    check_time_limit(100);
    if (count > 1 && strcmp(arguments[1], "options") == 0) {
        char *self = realpath("/proc/self/exe", NULL);
        options_are_enough(self);
        return 0;
    }
    profile_start = (__typeof__(profile_start))(uintptr_t)check_symbol("calm_profile_start");
    profile_stop = (__typeof__(profile_stop))(uintptr_t)check_symbol("calm_profile_stop");
    profile_dump = (__typeof__(profile_dump))(uintptr_t)check_symbol("calm_profile_dump");
    if (count > 1 && strcmp(arguments[1], "child") == 0) {
        CHECK(profile_start(0, 0) == EBUSY, "the option did not start it");
        leak();
        errno = 4711;
        raise(SIGUSR1);
        raise(SIGUSR1);
        CHECK(errno == 4711, "the handler changes errno");
        return 0;
    }
    every_form_is_sampled();
    a_leak_is_on_top();
    return 0;
}
