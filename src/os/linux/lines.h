/*
 * lines.h: the text files of /proc, a line at a time, with nothing but the kernel.
 */
#ifndef CALM_OS_LINUX_LINES_H
#define CALM_OS_LINUX_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lines {
    long fd;
    long length, next; /* what the buffer has; where the next line begins */
    char buffer[2048];
};

/* 0, or -errno. */
int lines_open(struct lines *lines, const char *path);
void lines_close(struct lines *lines);

/* Replaces the buffer by the file's next bytes: their number, 0 at the end, else -errno. */
long lines_refill(struct lines *lines);

/* Copies the next line without its end: 1, 0 at the end of the file, else -errno. What is longer
 * than `capacity` - 1 is cut. */
int lines_read(struct lines *lines, char *line, size_t capacity);

/* The number at *words, in base 10 or 16, 0 where there is none; *words moves behind its digits. */
uint64_t lines_number(char **words, unsigned base);

#endif
