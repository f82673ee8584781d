/*
 * lines.h: reads the text files of /proc line by line, with system calls only.
 */
#ifndef CALM_OS_LINUX_LINES_H
#define CALM_OS_LINUX_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lines {
    long fd;
    long length, next; /* bytes in the buffer; start of the next line */
    char buffer[2048];
};

/* Returns 0 or -errno. */
int lines_open(struct lines *lines, const char *path);
void lines_close(struct lines *lines);

/* Replaces the buffer by the file's next bytes. Returns their number, 0 at the end, else -errno. */
long lines_refill(struct lines *lines);

/* Copies the next line without its end. Returns 1, 0 at the end of the file, else -errno. Cuts
 * lines longer than `capacity` - 1. */
int lines_read(struct lines *lines, char *line, size_t capacity);

/* Parses the number at *words, in base 10 or 16; 0 if there is none. *words moves behind its
 * digits. */
uint64_t lines_number(char **words, unsigned base);

#endif
