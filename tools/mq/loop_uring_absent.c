/*
 * loop_uring_absent.c: takes the place of loop_uring.c where liburing was not there to build it.
 */
#include "loop.h"

static bool is_available(void)
{
    return false;
}

const struct loop_kind loop_uring = {.name = "io_uring", .is_available = is_available};
