/*
 * lines.c: reads text files by the kernel's calls into the caller's buffer.
 */
#define _GNU_SOURCE

#include "os/linux/lines.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>

#include "os/linux/syscall.h"

int lines_open(struct lines *lines, const char *path)
{
    lines->length = lines->next = 0;
    lines->fd = system_call(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
    return lines->fd < 0 ? (int)lines->fd : 0;
}

void lines_close(struct lines *lines)
{
    system_call(SYS_close, lines->fd, 0, 0, 0, 0, 0);
}

long lines_refill(struct lines *lines)
{
    do
        lines->length = system_call(SYS_read, lines->fd, (long)lines->buffer, sizeof lines->buffer,
                                    0, 0, 0);
    while (lines->length == -EINTR);
    lines->next = 0;
    return lines->length;
}

int lines_read(struct lines *lines, char *line, size_t capacity)
{
    size_t used = 0;
    for (;;) {
        if (lines->next == lines->length && lines_refill(lines) <= 0)
            return (int)lines->length;
        char c = lines->buffer[lines->next++];
        if (c == '\n')
            break;
        if (used + 1 < capacity)
            line[used++] = c;
    }
    line[used] = '\0';
    return 1;
}

static unsigned digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return (unsigned)(c - '0');
    return c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10) : UINT_MAX;
}

uint64_t lines_number(char **words, unsigned base)
{
    uint64_t value = 0;
    for (; digit_value(**words) < base; (*words)++)
        value = value * base + digit_value(**words);
    return value;
}
