/*
 * huge.h: in which part of the region huge pages are asked for.
 */
#ifndef CALM_MEM_HUGE_H
#define CALM_MEM_HUGE_H

#include "base/attr.h"
#include "base/bits.h"

/* Units of a huge page, of the machines that have the most of them. */
enum { HUGE_UNITS = 32 };

/* The first unit of the part in which they may be asked for; SIZE_MAX: there is none. And how long
 * the first touch of one may take before they are thought too dear. Set before the region grows. */
extern HIDDEN size_t huge_from;
extern HIDDEN uint64_t huge_ns_max;

/*
 * The front has passed over [first, end), which is the caller's, fresh and not yet touched. Asks
 * for huge pages there if `is_wanted`, and refuses them below. Any thread, which waits for none.
 */
void huge_follow_front(size_t first, size_t end, bool is_wanted);

/* Something below the unit `end` is about to be given back, or mapped afresh: refuses huge pages in
 * all that the front has passed over, if they are asked for there. Any thread. */
void huge_leave(size_t end);

#endif
