/*
 * keep.h: queues in a file, from a stop to the next start.
 *
 * Owner: the main thread; keep_fill lets the workers read.
 */
#ifndef CALM_MQ_KEEP_H
#define CALM_MQ_KEEP_H

#include <stdbool.h>
#include <stddef.h>

#include "keep_format.h"

struct server;

enum { KEEP_PATH_MAX = 4096 };

struct keep {
    char path[KEEP_PATH_MAX], beside[KEEP_PATH_MAX],
        lock_path[KEEP_PATH_MAX]; /* FILE, FILE.new, FILE.lock */
    int lock_fd;
    const char *start; /* of FILE's bytes; NULL: there is none */
    size_t bytes;
    struct keep_header header;
};

/* --- keep.c --- */

/* Takes the lock, and reads the header of FILE, if there is one that is whole and fits. From then
 * on keep.header.seed is the seed to use. False: it said why, and FILE is as it was. */
bool keep_open(struct server *server);

/* Forgets the bytes that were read. */
void keep_unmap(struct keep *keep);

/* Puts what is in FILE into the queues; FILE stays until the next stop puts another in its place.
 */
bool keep_fill(struct server *server);

/* Writes all queues to FILE, when the workers have ended. False: errno says why, and FILE is as it
 * was. */
bool keep_write(struct server *server);

/* --- keep_read.c --- */

/* Whether a whole file fits into what the options give; or writes why not. */
bool keep_fits(const struct keep *keep, const struct server *server, char *why, size_t why_bytes);

/* --- keep_write.c --- */

/* Returns 0 or an errno. */
int keep_write_queues(int fd, const struct server *server);

#endif
