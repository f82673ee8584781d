/*
 * dump.c: real signals and files.
 */
#include "os/dump.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

int os_on_signal(int number, void (*handler)(int number))
{
    int before = errno;
    int result = signal(number, handler) != SIG_ERR ? 0 : -errno;
    errno = before;
    return result;
}

int os_file_create(const char *name)
{
    int before = errno;
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0600);
    int result = fd >= 0 ? fd : -errno;
    errno = before;
    return result;
}

void os_file_close(int fd)
{
    close(fd);
}

/* Only one process writes to the simulated files. */
void os_file_lock(int fd)
{
    (void)fd;
}

void os_file_unlock(int fd)
{
    (void)fd;
}

int os_errno(void)
{
    return errno;
}
