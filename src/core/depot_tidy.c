/*
 * depot_tidy.c: moves a depot's batches and deferred frees to its bitmaps, and its empty slabs to
 * the spans.
 *
 * Owner: the purger, in its turn (core/purge_turn.h), or a thread that ends. Design:
 * docs/design/purge.md
 */
#include "core/depot.h"
#include "core/purge_turn.h"

/* Moves the batches of stacks that did not change since the last purge tick, or of all stacks, to
 * the bitmaps. Adds their blocks to *moved. Returns whether all stacks were idle or `is_all`. */
static bool tidy_stacks(struct depot *depot, bool is_all, bool is_patient, size_t *moved)
{
    bool is_idle = true;
    for (unsigned shard = 0; shard < shard_count; shard++) {
        struct batch_stack *stack = depot_stack(depot, shard);
        if (stack == NULL)
            continue;
        if (!batch_is_idle(stack) && !is_all) {
            is_idle = false;
            continue;
        }
        if (batch_count(stack) > 0)
            *moved += depot_drain(depot, stack, is_patient);
        batch_drop_empty(stack);
    }
    return is_idle;
}

size_t depot_tidy(struct depot *depot, bool is_all, bool is_patient)
{
    size_t moved = 0;
    while (deferred_any(&depot->deferred) && depot_drain(depot, NULL, is_patient) > 0)
        continue;
    if (tidy_stacks(depot, is_all, is_patient, &moved))
        while (depot_retire_empty(depot, is_patient) == REFILL_MAX)
            continue;
    return moved;
}

void depot_tidy_all(bool is_patient)
{
    for (struct depot *depot = depot_newest(); depot != NULL; depot = depot->below) {
        bool has_turn = is_patient ? purge_turn_begin() : purge_turn_begin_soon();
        if (!has_turn && !is_patient)
            return;
        depot_tidy(depot, true, is_patient);
        purge_turn_end(has_turn);
    }
}
