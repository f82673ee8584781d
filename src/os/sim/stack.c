/*
 * stack.c: simulated stacks of one caller, enough for the layers above to tell sites apart.
 */
#include "os/stack.h"

NOINLINE size_t os_stack(uintptr_t *callers, size_t max)
{
    if (max == 0)
        return 0;
    callers[0] = (uintptr_t)__builtin_return_address(0);
    return 1;
}

size_t os_stack_from(uintptr_t caller, uintptr_t sp, uintptr_t *callers, size_t max)
{
    (void)caller, (void)sp, (void)callers, (void)max;
    return 0;
}

size_t os_callers(uintptr_t first, struct os_caller *callers, size_t max)
{
    if (max == 0)
        return 0;
    callers[0] = (struct os_caller){.address = first};
    return 1;
}

size_t os_stack_told(uintptr_t first, uintptr_t first_sp, uintptr_t *callers, size_t max)
{
    (void)first, (void)first_sp, (void)callers, (void)max;
    return 0;
}

uintptr_t os_stack_word_far(uintptr_t at)
{
    (void)at;
    return 0;
}
