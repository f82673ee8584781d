/*
 * compact.h: moves small blocks from sparse slabs to fuller ones, for a program that can change its
 * pointers.
 */
#ifndef CALM_CORE_COMPACT_H
#define CALM_CORE_COMPACT_H

#include "base/attr.h"

/* Implement calm_should_move and calm_move. */
bool compact_helps(const void *block);
void *compact_move(void *block);

#endif
