/*
 * mark.c: the mark, and whether it is reliable.
 *
 * Owner: cache_mark is set while the heap starts, marks_are_unsure in a fork's child.
 */
#include "core/mark.h"

uint64_t cache_mark = 0x6d6c61636d6c61 | (uint64_t)MARK_HIGHEST << MARK_RANDOM_BITS;
_Atomic bool marks_are_unsure;
