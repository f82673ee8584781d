/*
 * dump.c: a signal's handler, and a file for it to write.
 */
#define _GNU_SOURCE

#include "os/dump.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>

#include "os/linux/syscall.h"

int os_on_signal(int number, void (*handler)(int number))
{
    int before = errno;
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART | SA_ONSTACK};
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

int os_errno(void)
{
    return errno;
}
