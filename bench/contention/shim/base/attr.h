/*
 * attr.h of the simulated machine: the real one, but a core that waits in a loop says so.
 */
#ifndef CALM_BENCH_ATTR_H
#define CALM_BENCH_ATTR_H

#include_next "base/attr.h"

void machine_pause(void);

#undef cpu_relax
#define cpu_relax() machine_pause()

#endif
