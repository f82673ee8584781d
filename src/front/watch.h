/*
 * watch.h: the list of facts through which another process reads our counters and tables.
 */
#ifndef CALM_FRONT_WATCH_H
#define CALM_FRONT_WATCH_H

#include "base/facts.h"

/* Incremented when a fact changes its meaning or disappears. */
enum { WATCH_VERSION = 6 };

extern HIDDEN const struct fact_table watch_table;

#endif
