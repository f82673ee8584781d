/*
 * shards_model.c: the shipped core/depot_shards.c on core/batch.c under the explorer, with two
 * shards.
 *
 * Checked after every schedule: no block is lost or handed out twice, whichever shard asks; every
 * batch is in one place only; a shard that has nothing finds what lies in the other; two threads
 * that make the stacks at once lose nothing.
 *
 * Not covered: what the machine reorders (the explorer runs all operations in one total order);
 * more than two shards, three threads or three preemptions.
 */
#include "explore.h"

#include "core/batch.c" /* whole, so that its unused stacks can be looked at and reset */
#include "core/depot_shards.c"

enum { SHARDS = 2, BLOCKS = 8, NUMBERS = 3, MEMORY_CHUNKS = 4 };

unsigned shard_count = SHARDS;
static unsigned shard_now[EXPLORE_THREADS_MAX]; /* where each thread runs */
static char blocks[BLOCKS];                     /* their addresses are the blocks */
static unsigned times_out[BLOCKS];              /* how often each is out of the stacks */
static struct depot depot;

#define MEMORY_BYTES (MEMORY_CHUNKS * CHUNK_BATCHES * sizeof(struct batch))
#include "bump_meta.h"

unsigned shard_here(void)
{
    return shard_now[explore_self()];
}

static bool give(unsigned first)
{
    void *pointer = &blocks[first];
    times_out[first]--;
    bool is_given = depot_batch_push(&depot, &pointer, 1, BATCHES_PER_STACK);
    times_out[first] += !is_given;
    return is_given;
}

static size_t take(void)
{
    void *out[BATCH_BLOCKS];
    size_t count = depot_batch_pop(&depot, out);
    for (size_t i = 0; i < count; i++)
        if (++times_out[(char *)out[i] - blocks] > 1)
            explore_fail("a block was handed out twice");
    return count;
}

/* Threads 1 and 2 run in the other shard than thread 0, and what comes before and after. */
static void begin(void)
{
    for (unsigned i = 0; i < CHUNKS; i++)
        atomic_store(&chunks[i], NULL);
    for (size_t i = 0; i < memory_used; i++)
        memory[i] = 0;
    memory_used = 0;
    atomic_store(&numbers_used, 0);
    atomic_store(&numbers_limit, NUMBERS);
    for (unsigned shard = 0; shard < SHARDS; shard++)
        atomic_store(&unused[shard].list.top, 0);
    depot = (struct depot){0};
    for (unsigned i = 0; i < BLOCKS; i++)
        times_out[i] = 1;
    shard_now[0] = 0;
    shard_now[1] = shard_now[2] = 1;
}

/* One batch lies in the other shard's stack. */
static void begin_with_theirs(void)
{
    begin();
    shard_now[0] = 1;
    give(0);
    shard_now[0] = 0;
}

/* All batches there may be are empty, in the other shard's keeping. */
static void begin_with_all_theirs(void)
{
    begin();
    shard_now[0] = 1;
    for (unsigned i = 0; i < NUMBERS; i++)
        give(i);
    while (take() > 0)
        continue;
    batch_drop_empty(depot_stack(&depot, 1));
    shard_now[0] = 0;
}

static void walk(const struct batch_list *from, bool *is_met)
{
    for (uint32_t number = word_number(atomic_load(&from->top)); number != 0;
         number = atomic_load(&batch_at(number)->next)) {
        if (is_met[number])
            explore_fail("a batch is in two places, or a stack is a ring");
        is_met[number] = true;
    }
}

static void end(void)
{
    bool is_met[NUMBERS + 1] = {false};
    for (unsigned shard = 0; shard < SHARDS; shard++) {
        struct batch_stack *stack = depot_stack(&depot, shard);
        walk(&unused[shard].list, is_met);
        if (stack == NULL)
            continue;
        walk(&stack->full, is_met);
        walk(&stack->empty, is_met);
    }
    for (uint32_t number = 1; number <= atomic_load(&numbers_used); number++)
        if (!is_met[number])
            explore_fail("a batch was lost");
    verdict found = depot_verify_stacks(&depot);
    if (found != NULL)
        explore_fail(found);
    while (take() > 0)
        continue;
    for (unsigned i = 0; i < BLOCKS; i++)
        if (times_out[i] != 1)
            explore_fail("a block was lost");
}

static void give_two(void)
{
    give(2);
    give(3);
}

static void give_one(void)
{
    give(4);
}

static void give_take(void)
{
    give(5);
    take();
}

static void take_give(void)
{
    take();
    give(6);
}

/* Only this thread takes, and one batch lies there all the time. */
static void take_what_lies(void)
{
    if (take() == 0)
        explore_fail("a shard found nothing, though another had a batch");
}

/* One batch is nobody else's, however the other thread goes on. */
static void give_from_theirs(void)
{
    if (!give(7))
        explore_fail("no batch could be given, though another shard has empty ones");
}

int main(void)
{
    const struct explore_case cases[] = {
        {"shards: a shard takes what lies in the other",
         3,
         2,
         begin_with_theirs,
         {take_what_lies, give_one},
         end},
        {"shards: two make the stacks at once", 2, 3, begin, {take_give, give_one, give_take}, end},
        {"shards: both give and take", 3, 2, begin_with_theirs, {take_give, give_take}, end},
        {"shards: empty batches of the other shard are used",
         3,
         2,
         begin_with_all_theirs,
         {give_from_theirs, give_two},
         end},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        explore(&cases[i]);
    return 0;
}
