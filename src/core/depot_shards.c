/*
 * depot_shards.c: a depot's stacks of batches, one for each shard.
 *
 * The stack of shard 0 is part of the depot. The others, a line each, are made when the first batch
 * is flushed in one of their shards, and never unmade. A flush pushes to its own shard's stack. A
 * refill pops from its own shard's stack, then from the next with a batch, so no batch is out of
 * reach.
 *
 * Owner: any thread, lock-free. D3: each stack has its shard's number. Checked by depot_verify().
 * Design: docs/design/depots.md
 */
#include "core/depot.h"
#include "mem/meta.h"

struct shard_stack {
    _Alignas(CACHE_LINE_BYTES) struct batch_stack batches;
};
_Static_assert(sizeof(struct shard_stack) == SHARD_STACK_BYTES, "a line each");

struct batch_stack *depot_stack(struct depot *depot, unsigned shard)
{
    if (shard == 0)
        return &depot->batches;
    struct shard_stack *others = load(&depot->others, ACQUIRE);
    return others == NULL ? NULL : &others[shard - 1].batches;
}

/* Two threads may both make the stacks; the loser's are never used. */
static void make_others(struct depot *depot)
{
    size_t count = shard_count - 1;
    struct shard_stack *made, *others = NULL;
    made = (struct shard_stack *)meta_alloc(count * sizeof *made, CACHE_LINE_BYTES);
    if (made == NULL)
        return;
    for (size_t i = 0; i < count; i++)
        made[i].batches.shard = (uint32_t)i + 1;
    compare_swap(&depot->others, &others, made, RELEASE, RELAXED);
}

/* The caller's own stack, or shard 0's when there is no memory for others. */
static struct batch_stack *stack_here(struct depot *depot)
{
    unsigned shard = shard_here();
    struct batch_stack *stack = depot_stack(depot, shard);
    if (unlikely(stack == NULL)) {
        make_others(depot);
        stack = depot_stack(depot, shard);
    }
    return stack != NULL ? stack : &depot->batches;
}

bool depot_push_in_shard(struct depot *depot, void *const *blocks, size_t count,
                         uint32_t batches_max)
{
    return batch_push(stack_here(depot), blocks, count, batches_max);
}

size_t depot_pop_from_shards(struct depot *depot, void **out)
{
    unsigned here = shard_here();
    size_t count = 0;
    for (unsigned i = 0; i < shard_count && count == 0; i++) {
        struct batch_stack *stack = depot_stack(depot, shard_after(here, i));
        count = stack == NULL ? 0 : batch_pop(stack, out);
    }
    return count;
}

static size_t sum(struct depot *depot, size_t (*of)(const struct batch_stack *))
{
    size_t all = 0;
    for (unsigned shard = 0; shard < shard_count; shard++) {
        const struct batch_stack *stack = depot_stack(depot, shard);
        all += stack == NULL ? 0 : of(stack);
    }
    return all;
}

size_t depot_batch_count(struct depot *depot)
{
    return sum(depot, batch_count) + deferred_any(&depot->deferred);
}

size_t depot_batch_blocks(struct depot *depot)
{
    return sum(depot, batch_blocks) + (size_t)deferred_count(&depot->deferred);
}

bool depot_batch_search(struct depot *depot, struct search *search)
{
    bool is_held = false;
    for (unsigned shard = 0; shard < shard_count && !is_held && search_step(search); shard++) {
        const struct batch_stack *stack = depot_stack(depot, shard);
        is_held = stack != NULL && batch_search(stack, search);
    }
    return is_held;
}

verdict depot_verify_stacks(struct depot *depot)
{
    for (unsigned shard = 0; shard < shard_count; shard++) {
        const struct batch_stack *stack = depot_stack(depot, shard);
        if (stack != NULL && stack->shard != shard)
            return "D3: a stack of batches has another shard's number";
    }
    return NULL;
}
