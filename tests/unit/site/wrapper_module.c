/*
 * wrapper_module.c: a wrapper in a library that can be unloaded, and four callers of it.
 */
#include <stddef.h>

#define NOINLINE __attribute__((noinline))

void module_wrapper(void (*request)(size_t), size_t bytes);

static volatile unsigned sink;

NOINLINE static void wrap(void (*request)(size_t), size_t bytes)
{
    request(bytes);
    sink = sink + 1;
}

/* Four calls, each with a return address of its own. */
void module_wrapper(void (*request)(size_t), size_t bytes)
{
    wrap(request, bytes);
    wrap(request, bytes + 16);
    wrap(request, bytes + 32);
    wrap(request, bytes + 48);
    sink = sink + 1;
}
