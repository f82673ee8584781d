/*
 * depot_table.c: the depots. A bin's depot is made at the bin's first use and never unmade.
 *
 * The list, newest first, is the truth; the table is an index by bin. A depot is in the list before
 * any thread uses it. Only the newest may be missing from the table: the next maker enters it, so
 * that no thread waits for a stopped maker.
 *
 * Owner: any thread, lock-free. D4: a bin has one depot in the list. Design: docs/design/depots.md,
 * protocol: docs/protocols/depot-table.md
 */
#include "core/depot.h"
#include "mem/meta.h"

struct depot *_Atomic depot_table[BIN_LIMIT];
struct depot *_Atomic depot_list;
_Atomic uint64_t depot_rows[CLASS_LIMIT][ROW_LIMIT / 64];

struct depot *depot_newest(void)
{
    return load(&depot_list, ACQUIRE);
}

/* M0: before the bin has a block. */
static void note_row(unsigned bin)
{
    unsigned row = bin_row(bin);
    atomic_fetch_or_explicit(&depot_rows[bin_class(bin)][row / 64], (uint64_t)1 << row % 64,
                             RELAXED);
}

/* Two threads may both make a depot; the loser's is never used. */
struct depot *depot_make(unsigned bin)
{
    struct depot *made = NULL;
    for (;;) { /* each turn but the first means another depot in the list */
        struct depot *top = load(&depot_list, ACQUIRE); /* M1: pairs with M3 */
        if (top != NULL)
            store(&depot_table[top->bin], top, RELEASE); /* M2: for a maker still before M4 */
        if (depot_of(bin) != NULL)
            return depot_of(bin);
        if (made == NULL &&
            (made = (struct depot *)meta_alloc(sizeof *made, CACHE_LINE_BYTES)) == NULL)
            return NULL;
        note_row(bin);
        made->bin = (bin_index)bin;
        made->below = top;
        /* M3: all below are in the table, and none is this bin's. Release: for M1, M2 included. */
        if (compare_swap(&depot_list, &top, made, ACQ_REL, RELAXED))
            break;
    }
    store(&depot_table[bin], made, RELEASE); /* M4 */
    return made;
}

/* A signal handler may fork inside a depot that its thread has locked: the thread keeps that lock.
 * Waits a second at most for a holder that does not run. */
void depot_fork_lock(void)
{
    for (struct depot *depot = depot_newest(); depot != NULL; depot = depot->below)
        depot->is_taken = !lock_is_own(&depot->lock) && depot_lock_or_fail(depot);
}

void depot_fork_unlock(void)
{
    for (struct depot *depot = depot_newest(); depot != NULL; depot = depot->below) {
        bool is_taken = depot->is_taken;
        depot->is_taken = false;
        if (is_taken)
            lock_release(&depot->lock, RANK_DEPOT);
    }
}

/* Depots that another thread made during the fork have is_taken false. */
void depot_fork_reset(bool is_locked)
{
    for (struct depot *depot = depot_newest(); depot != NULL; depot = depot->below) {
        lock_orphan(&depot->lock, is_locked && depot->is_taken);
        depot->is_taken = false;
    }
}
