/*
 * stack.h: who called: the return addresses of the calling thread.
 *
 * Read by the unwind tables that compilers leave in every module, and by frame pointers where a
 * function has none. Memory of the program is read only after the kernel was asked whether it can
 * be, so a broken stack ends the walk and nothing else. Design: docs/design/stacks.md
 */
#ifndef CALM_OS_STACK_H
#define CALM_OS_STACK_H

#include "base/attr.h"

/*
 * Fills `callers` with at most `max` return addresses, innermost first, and returns how many. The
 * first is the address that the caller of os_stack returns to. Where a signal came in between, the
 * list has the kernel's return from the handler, then the instruction that was interrupted.
 *
 * Allocates nothing, takes no lock, leaves errno alone. Safe in signal handlers, on any stack with
 * 4 KiB left, and in the child of a fork or vfork. Cost: a fraction of a microsecond a frame; a
 * kernel entry for each page of stack that the walk crosses.
 */
size_t os_stack(uintptr_t *callers, size_t max);

#endif
