/*
 * compact.h: moves small blocks out of slabs that hold few into slabs that hold many, for a program
 * that can change its pointers.
 */
#ifndef CALM_CORE_COMPACT_H
#define CALM_CORE_COMPACT_H

#include "base/attr.h"

/* As calm_should_move and calm_move. */
bool compact_helps(const void *block);
void *compact_move(void *block);

#endif
