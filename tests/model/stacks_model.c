/*
 * stacks_model.c: the shipped site/stacks.c under the explorer, with two rows for stacks and one
 * for a site alone: rows change their stacks while others sample, free, visit, and read from
 * outside.
 *
 * Each stack asks for a size of its own. Checked in every visit: a row's callers are of one stack
 * and its bytes of that stack's size. After every schedule: all rows together have every request
 * and every byte, and what is live is what was not ended.
 *
 * Not covered: what the machine reorders (the explorer runs all operations in one total order);
 * tables of more than three rows, more than three threads or two preemptions; the reader's half of
 * `calm heap`, which is written in Python.
 */
#include "explore.h"

#include "site/stacks.c"

enum { STACKS = 5 };

static struct tables memory;
static uint64_t asked[STACKS], ended[STACKS]; /* requests, by stack */

static struct estimate estimate_of(unsigned stack)
{
    return (struct estimate){(uint64_t)1 << WEIGHT_BITS, (uint64_t)(100 + stack) << VOLUME_BITS};
}

static uint32_t sample(unsigned stack)
{
    const uintptr_t callers[2] = {stack * 16, stack * 16 + 1};
    uint32_t row = stacks_enter(callers, 2);
    stacks_add(row, estimate_of(stack));
    asked[stack]++;
    return row;
}

static void sample_and_end(unsigned stack)
{
    stacks_end(sample(stack), estimate_of(stack));
    ended[stack]++;
}

static void check_visit(const struct profile_stack *stack, void *context)
{
    (void)context;
    if (stack->depth == 2) {
        uintptr_t number = stack->callers[0] / 16;
        if (number >= STACKS || stack->callers[1] != stack->callers[0] + 1)
            explore_fail("a row has callers of two stacks");
        if (stack->all_bytes % (100 + number) != 0)
            explore_fail("a row counts what another stack asked for");
    }
    if (stack->live_blocks > stack->all_blocks)
        explore_fail("more is live than was asked for");
}

static void visit(void)
{
    stacks_visit(check_visit, NULL);
}

/* As rows() of tools/calm/watched.py, which has no use of a row. */
static void read_outside(void)
{
    for (uint32_t number = 2; number <= ROWS; number++) {
        struct row *row = &memory.rows[number - 1];
        uint64_t before = load(&row->users, ACQUIRE); /* V1 */
        uint32_t depth = load(&row->depth, ACQUIRE);  /* V2 */
        uintptr_t first = load(&memory.callers[number - 1][0], ACQUIRE);
        uintptr_t second = load(&memory.callers[number - 1][1], ACQUIRE);
        uint64_t after = load(&row->users, ACQUIRE); /* V3 */
        if (before >> 32 != after >> 32 || (uint32_t)before == CLAIMED ||
            (uint32_t)after == CLAIMED)
            continue;
        if (depth == 2 && second != first + 1)
            explore_fail("who reads from outside finds callers of two stacks");
    }
}

static void begin(void)
{
    memory = (struct tables){0};
    rows_used = OTHER;
    cut = 0;
    stacks_start(&memory);
    for (unsigned stack = 0; stack < STACKS; stack++)
        asked[stack] = ended[stack] = 0;
}

static void begin_full_of_ended(void)
{
    begin();
    sample_and_end(0);
    sample_and_end(1);
}

static void begin_full_of_live(void)
{
    begin();
    sample(0);
    sample(1);
}

static void sample_0(void)
{
    sample_and_end(0);
}

static void sample_2(void)
{
    sample_and_end(2);
}

static void sample_2_and_3(void)
{
    sample_and_end(2);
    sample_and_end(3);
}

static void keep_3(void)
{
    sample(3);
}

static void keep_4(void)
{
    sample(4);
}

static struct profile_stack sum;

static void add_up(const struct profile_stack *stack, void *context)
{
    check_visit(stack, context);
    if (stack->depth == 2 && stack->all_bytes != stack->all_blocks * (100 + stack->callers[0] / 16))
        explore_fail("a row counts what another stack asked for");
    sum.all_blocks += stack->all_blocks;
    sum.all_bytes += stack->all_bytes;
    sum.live_blocks += stack->live_blocks;
    sum.live_bytes += stack->live_bytes;
}

static void end(void)
{
    struct profile_stack wanted = {0};
    for (unsigned stack = 0; stack < STACKS; stack++) {
        wanted.all_blocks += asked[stack];
        wanted.all_bytes += asked[stack] * (100 + stack);
        wanted.live_blocks += asked[stack] - ended[stack];
        wanted.live_bytes += (asked[stack] - ended[stack]) * (100 + stack);
    }
    sum = (struct profile_stack){0};
    stacks_visit(add_up, NULL);
    if (sum.all_blocks != wanted.all_blocks || sum.all_bytes != wanted.all_bytes)
        explore_fail("what was asked for is not what rows count");
    if (sum.live_blocks != wanted.live_blocks || sum.live_bytes != wanted.live_bytes)
        explore_fail("what is live is not what rows count");
    uint64_t users = 0;
    for (uint32_t number = 1; number <= ROWS; number++) {
        if ((uint32_t)memory.rows[number - 1].users == CLAIMED)
            explore_fail("a row stays claimed");
        users += (uint32_t)memory.rows[number - 1].users;
    }
    if (users != wanted.live_blocks + 1)
        explore_fail("a row has users that are gone");
}

int main(void)
{
    const struct explore_case cases[] = {
        {"stacks: first uses of one stack and another",
         2,
         2,
         begin,
         {sample_2, sample_2_and_3},
         end},
        {"stacks: rows of ended stacks are reused",
         2,
         2,
         begin_full_of_ended,
         {sample_2_and_3, keep_3},
         end},
        {"stacks: one stack in two threads",
         2,
         2,
         begin_full_of_ended,
         {sample_2, sample_2_and_3},
         end},
        {"stacks: one comes back while its row is reused",
         2,
         2,
         begin_full_of_ended,
         {sample_0, sample_2_and_3},
         end},
        {"stacks: reused while they are visited",
         2,
         3,
         begin_full_of_ended,
         {sample_2, keep_3, visit},
         end},
        {"stacks: reused while they are read from outside",
         2,
         2,
         begin_full_of_ended,
         {sample_2_and_3, read_outside},
         end},
        {"stacks: no room among live ones", 2, 3, begin_full_of_live, {keep_3, keep_4, visit}, end},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        explore(&cases[i]);
    return 0;
}
