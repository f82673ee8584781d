/*
 * cold.h: sends pages of used chunks that nobody touches to swap, if there is swap.
 */
#ifndef CALM_MEM_COLD_H
#define CALM_MEM_COLD_H

#include "base/attr.h"

/*
 * A pass visits every chunk. It puts one page of each used chunk in swap on trial. If the next pass
 * finds the page still in swap, the chunk is cold and its other pages follow.
 *
 * cold_begin() begins a pass, unless one is under way or the last one ended less than `age_ms` ago.
 * If `age_ms` is 0, a pass begins at once and counts every chunk as cold. Returns whether a pass is
 * under way. cold_step() runs a part of the pass and returns the bytes that left memory. The caller
 * of either holds the purger's turn.
 */
bool cold_begin(uint64_t now_ms, uint64_t age_ms, size_t page_bytes);
size_t cold_step(uint64_t now_ms);

#endif
