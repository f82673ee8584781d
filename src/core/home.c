/*
 * home.c: the homes' tables.
 *
 * Owner: the tables are written by the heap's start and constant afterwards.
 */
#include "core/home.h"

#include "base/atomic.h"
#include "base/bits.h"
#include "core/rows.h"

enum { HOMES_A_CPU = 2, SMALL_COUNT = SMALL_MAX / 8 + 1 };

static uint32_t tables[HOME_LIMIT - 1][SMALL_COUNT]; /* of homes from 1 on */
static unsigned home_count = 1;
static _Atomic unsigned homes_given;
static _Thread_local bool is_entered;

void home_start(unsigned cpu_count)
{
    home_count = rows_are_apart ? 1
                                : (unsigned)size_min((size_t)cpu_count * HOMES_A_CPU, HOME_LIMIT);
    for (unsigned home = 1; home < home_count; home++)
        for (unsigned i = 0; i < SMALL_COUNT; i++) {
            bool has_homes = class_has_homes(class_small[i] / ENTRY_BYTES);
            tables[home - 1][i] = class_small[i] + (has_homes ? home * HOME_ENTRY_BYTES : 0);
        }
}

unsigned home_next(void)
{
    return fetch_add(&homes_given, 1, RELAXED) % home_count;
}

void home_enter(unsigned home)
{
    is_entered = true;
    of_thread.small = home == 0 ? class_small : tables[home - 1];
}

bool home_is_entered(void)
{
    return is_entered;
}
