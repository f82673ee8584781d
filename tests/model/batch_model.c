/*
 * batch_model.c: the shipped core/batch.c under the explorer.
 *
 * Checked after every schedule: no block is lost or handed out twice; the stack's count is its
 * length; every batch is in one place only; a block that lies still is found, one that is out is
 * not.
 *
 * Not covered: what the machine reorders (the explorer runs all operations in one total order);
 * more than three threads or four preemptions; a tag that comes round after 2^32 steps.
 */
#include "explore.h"

#include "core/batch.c" /* whole, so that its unused stack can be looked at and reset */

enum { BLOCKS = 12, BLOCK_BYTES = 64 };

static char blocks[BLOCKS];        /* their addresses are the blocks */
static unsigned times_out[BLOCKS]; /* how often each is out of the stack */
static struct batch_stack stack;
unsigned shard_count = 1;

#define MEMORY_BYTES (4 * CHUNK_BATCHES * sizeof(struct batch))
#include "bump_meta.h"

static void give(unsigned first, unsigned count)
{
    void *pointers[2] = {&blocks[first], &blocks[first + count - 1]};
    for (unsigned i = first; i < first + count; i++)
        times_out[i]--;
    if (!batch_push(&stack, pointers, count, batches_for(BLOCK_BYTES)))
        for (unsigned i = first; i < first + count; i++)
            times_out[i]++;
}

static void take(void)
{
    void *out[BATCH_BLOCKS];
    size_t count = batch_pop(&stack, out);
    for (size_t i = 0; i < count; i++)
        if (++times_out[(char *)out[i] - blocks] > 1)
            explore_fail("a block was handed out twice");
}

static void begin(void)
{
    for (unsigned i = 0; i < CHUNKS; i++)
        atomic_store(&chunks[i], NULL);
    for (size_t i = 0; i < memory_used; i++)
        memory[i] = 0;
    memory_used = 0;
    atomic_store(&numbers_used, 0);
    atomic_store(&unused[0].list.top, 0);
    atomic_store(&stack.full.top, 0);
    atomic_store(&stack.empty.top, 0);
    for (unsigned i = 0; i < BLOCKS; i++)
        times_out[i] = 1;
}

static void begin_with_two(void)
{
    begin();
    give(0, 1);
    give(1, 1);
}

static void begin_with_three(void)
{
    begin_with_two();
    give(2, 1);
}

/* Walks a stack and counts its batches; each may be met once only. */
static unsigned walk(const struct batch_list *from, bool *is_met)
{
    unsigned length = 0;
    for (uint32_t number = word_number(atomic_load(&from->top)); number != 0;
         number = atomic_load(&batch_at(number)->next)) {
        if (is_met[number])
            explore_fail("a batch is in two places, or a stack is a ring");
        is_met[number] = true;
        length++;
    }
    return length;
}

static void end(void)
{
    bool is_met[BATCHES_MAX + 1] = {false};
    unsigned length = walk(&stack.full, is_met);
    if (length != batch_count(&stack))
        explore_fail("the stack's count is not its length");
    walk(&stack.empty, is_met);
    walk(&unused[0].list, is_met);
    for (uint32_t number = 1; number <= atomic_load(&numbers_used); number++)
        if (!is_met[number])
            explore_fail("a batch was lost");
    void *out[BATCH_BLOCKS];
    for (size_t count = 1; count > 0;) {
        count = batch_pop(&stack, out);
        for (size_t i = 0; i < count; i++)
            if (++times_out[(char *)out[i] - blocks] > 1)
                explore_fail("a block lies in the stack twice");
    }
    for (unsigned i = 0; i < BLOCKS; i++)
        if (times_out[i] != 1)
            explore_fail("a block was lost");
}

static void take_give(void)
{
    take();
    give(4, 1);
}

static void give_take(void)
{
    give(6, 2);
    take();
}

static void take_take_give(void)
{
    take();
    take();
    give(8, 1);
}

static void only_take(void)
{
    take();
}

static void only_give(void)
{
    give(10, 1);
}

/* Block 3 is out all the time: whatever the stack does, it must not be said to be free. */
static void look_for_live(void)
{
    if (batch_holds(&stack, &blocks[3]))
        explore_fail("a live block was found in the stack");
}

/* Block 0 lies at the bottom while others only come on top of it. */
static void look_for_still(void)
{
    if (!batch_holds(&stack, &blocks[0]))
        explore_fail("a block that lies still was not found");
}

static void give_give(void)
{
    give(4, 1);
    give(6, 2);
}

int main(void)
{
    const struct explore_case cases[] = {
        {"batch: take against take and give",
         4,
         2,
         begin_with_two,
         {only_take, take_take_give},
         end},
        {"batch: give and take, twice", 3, 2, begin, {give_take, take_give}, end},
        {"batch: three threads",
         2,
         3,
         begin_with_three,
         {take_give, take_take_give, give_take},
         end},
        {"batch: a live block is never found",
         3,
         2,
         begin_with_two,
         {look_for_live, take_take_give},
         end},
        {"batch: a still block is found", 3, 2, begin_with_two, {look_for_still, give_give}, end},
        {"batch: first batches of all", 3, 3, begin, {only_give, take_give, only_take}, end},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        explore(&cases[i]);
    return 0;
}
