/*
 * dump.c: a signal handler, and a file for it to write.
 */
#define _GNU_SOURCE

#include "os/dump.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <time.h>

#include "os/linux/syscall.h"

enum { LOCK_TRIES = 1000, LOCK_PAUSE_NS = 1000 * 1000 };

int os_on_signal(int number, void (*handler)(int number))
{
    int before = errno;
    struct sigaction action = {.sa_flags = SA_RESTART | SA_ONSTACK};
    action.sa_handler = handler;
    sigemptyset(&action.sa_mask);
    int result = sigaction(number, &action, NULL) == 0 ? 0 : -errno;
    errno = before;
    return result;
}

int os_file_create(const char *name)
{
    long flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
    return (int)system_call(SYS_openat, AT_FDCWD, (long)name, flags, 0600, 0, 0);
}

void os_file_close(int fd)
{
    system_call(SYS_close, fd, 0, 0, 0, 0, 0);
}

static bool lock_refused(int fd, short kind)
{
    struct flock whole = {.l_type = kind, .l_whence = SEEK_SET};
    long result = system_call(SYS_fcntl, fd, F_SETLK, (long)&whole, 0, 0, 0);
    return result == -EAGAIN || result == -EACCES;
}

void os_file_lock(int fd)
{
    struct timespec pause = {.tv_nsec = LOCK_PAUSE_NS};
    for (unsigned tries = 0; tries < LOCK_TRIES && lock_refused(fd, F_WRLCK); tries++)
        system_call(SYS_nanosleep, (long)&pause, 0, 0, 0, 0, 0);
}

void os_file_unlock(int fd)
{
    lock_refused(fd, F_UNLCK);
}

int os_errno(void)
{
    return errno;
}
