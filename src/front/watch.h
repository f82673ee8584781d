/*
 * watch.h: the list of facts by which another process reads our counters and tables.
 */
#ifndef CALM_FRONT_WATCH_H
#define CALM_FRONT_WATCH_H

#include "base/facts.h"

/* Changes when a fact comes to mean something else, or is gone that was there. */
enum { WATCH_VERSION = 5 };

extern HIDDEN const struct fact_table watch_table;

#endif
