/*
 * trace.h: tasks as somebody recorded them, instead of drawn ones.
 *
 * The file has a line a task, in order of arrival: when it came (ns), how long it ran (ns), its
 * block class (16: wants none), its key, and how long its block was
 * kept after it (ns).
 */
#ifndef CALM_SIM_TRACE_H
#define CALM_SIM_TRACE_H

#include "traffic.h"

/* The tasks of a file, to be freed, and their count. NULL: it cannot be read, or is none. */
struct traffic_task *trace_read(const char *path, uint64_t *count);

#endif
