/*
 * home.c: the homes' tables.
 *
 * The first thread that enters a home makes its table; a program with one thread makes none. A
 * thread that enters while another makes the table, perhaps one that was stopped, works in home 0.
 *
 * Owner: a table is its maker's until it is ready, and constant afterwards.
 */
#include "core/home.h"

#include "base/atomic.h"
#include "base/bits.h"
#include "core/rows.h"

enum { HOMES_A_CPU = 2, SMALL_COUNT = SMALL_MAX / 8 + 1 };

enum table_state { TABLE_NONE, TABLE_BEING_MADE, TABLE_READY };

static uint32_t tables[HOME_LIMIT - 1][SMALL_COUNT]; /* of homes from 1 on */
static _Atomic uint32_t table_states[HOME_LIMIT];
unsigned home_count = 1;
static _Atomic unsigned homes_given;
static _Thread_local bool is_entered;

void home_start(unsigned cpu_count)
{
    home_count = rows_are_separate
                     ? 1
                     : (unsigned)size_min((size_t)cpu_count * HOMES_A_CPU, HOME_LIMIT);
}

static void make_table(unsigned home)
{
    for (unsigned i = 0; i < SMALL_COUNT; i++) {
        bool has_homes = class_has_homes(class_small[i] / ENTRY_BYTES);
        tables[home - 1][i] = class_small[i] + (has_homes ? home * HOME_ENTRY_BYTES : 0);
    }
}

/* The table of a home above 0, made on first use. NULL while another thread makes it. */
static const uint32_t *table_of(unsigned home)
{
    uint32_t state = TABLE_NONE;
    if (compare_swap(&table_states[home], &state, TABLE_BEING_MADE, ACQUIRE, ACQUIRE)) {
        make_table(home);
        store(&table_states[home], TABLE_READY, RELEASE); /* pairs with a failed compare_swap */
        state = TABLE_READY;
    }
    return state == TABLE_READY ? tables[home - 1] : NULL;
}

unsigned home_next(void)
{
    return fetch_add(&homes_given, 1, RELAXED) % home_count;
}

void home_enter(unsigned home)
{
    const uint32_t *table = home == 0 ? NULL : table_of(home);
    is_entered = true;
    of_thread.home = home;
    of_thread.small = table != NULL ? table : class_small;
}

bool home_is_entered(void)
{
    return is_entered;
}
