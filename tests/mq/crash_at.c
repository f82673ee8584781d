/*
 * crash_at.c: preloaded, kills the process just before the CALM_CRASH_AT-th call that touches a
 * file, and writes what was called to CALM_CRASH_LOG. A write that it kills has written half of its
 * bytes.
 */
#define _GNU_SOURCE

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Whether a path or a descriptor is one of those that the test is about: in a folder `kept`. */
static bool is_kept(const char *path)
{
    return strstr(path, "/kept") != NULL;
}

static bool is_kept_fd(int fd, char path[PATH_MAX])
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    path[length < 0 ? 0 : length] = '\0';
    return is_kept(path);
}

static void say(const char *call, const char *path)
{
    char line[PATH_MAX + 32];
    const char *log = getenv("CALM_CRASH_LOG");
    int length = snprintf(line, sizeof line, "%s %s\n", call, strrchr(path, '/') + 1);
    long fd = log == NULL ? -1
                          : syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (fd < 0)
        return;
    syscall(SYS_write, fd, line, length);
    syscall(SYS_close, fd);
}

/* Counts a call; true: it is the one that must not be made. */
static bool is_last(const char *call, const char *path)
{
    static int calls;
    const char *wanted = getenv("CALM_CRASH_AT");
    say(call, path);
    return wanted != NULL && ++calls == atoi(wanted);
}

static void end(void)
{
    for (;;)
        syscall(SYS_kill, getpid(), SIGKILL);
}

int open(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    unsigned mode = (flags & O_CREAT) != 0 ? va_arg(rest, unsigned) : 0;
    va_end(rest);
    if (is_kept(path) && is_last("open", path))
        end();
    long fd = syscall(SYS_openat, AT_FDCWD, path, flags, mode); /* sets errno */
    return (int)fd;
}

ssize_t write(int fd, const void *bytes, size_t count)
{
    char path[PATH_MAX];
    if (is_kept_fd(fd, path) && is_last("write", path)) {
        syscall(SYS_write, fd, bytes, count / 2);
        end();
    }
    return syscall(SYS_write, fd, bytes, count);
}

int fsync(int fd)
{
    char path[PATH_MAX];
    if (is_kept_fd(fd, path) && is_last("fsync", path))
        end();
    return (int)syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to)
{
    if (is_kept(to) && is_last("rename", from))
        end();
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int unlink(const char *path)
{
    if (is_kept(path) && is_last("unlink", path))
        end();
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}
