/*
 * watch.h: the list of facts by which another process reads our counters and tables.
 */
#ifndef CALM_FRONT_WATCH_H
#define CALM_FRONT_WATCH_H

#include "base/facts.h"

/* Changes when a fact comes to mean something else, or is gone that was there. */
enum { WATCH_VERSION = 1, WATCH_LISTS = 16 };

struct watch_table {
    char magic[16];
    uint32_t version;                            /* WATCH_VERSION */
    uint32_t bytes;                              /* of this struct */
    char library[16];                            /* CALM_VERSION_TEXT */
    const struct watch_fact *lists[WATCH_LISTS]; /* the last is followed by NULL */
};

extern HIDDEN const struct watch_table watch_table;

#endif
