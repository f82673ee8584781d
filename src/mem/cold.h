/*
 * cold.h: pages of used units that nobody touches go to swap, where the kernel has some.
 */
#ifndef CALM_MEM_COLD_H
#define CALM_MEM_COLD_H

#include "base/attr.h"

/*
 * A pass looks at all units there are. Each used one has a page in swap on trial; when that page is
 * still there in a later pass, the unit is cold, and the rest of it follows. cold_begin: begins a
 * pass, unless one is under way or the last one was over less than `age_ms` ago; with 0 at once,
 * and each unit counts as cold. Returns whether a pass is under way. cold_some: a part of it;
 * returns the bytes that left memory. Both have the purger's turn.
 */
bool cold_begin(uint64_t now_ms, uint64_t age_ms, size_t page_bytes);
size_t cold_some(uint64_t now_ms);

#endif
