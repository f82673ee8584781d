/*
 * ring_model.c: the shipped exec/ring.c and exec/inbox.c under the explorer: a slot is one thread's
 * at a time, none is lost, what was published or sent is taken once, what a close refuses is spare,
 * and a look does not miss what is there.
 *
 * Not covered: what the machine reorders (the explorer runs all operations in one total order);
 * capacities above two, more than three threads or three preemptions; a thread that is stopped for
 * ever.
 */
#include "explore.h"

#include "exec/ring.c"

#include "exec/inbox.c"

enum { CAPACITY = 2, SLOT_BYTES = 64 };

static struct inbox inbox;
static _Alignas(
    64) char memory[CAPACITY * (SLOT_BYTES + INBOX_RINGS * INBOX_LAPS * sizeof(struct ring_place))];
static unsigned holders[CAPACITY];
static unsigned published, taken, refused;

/* A put that waits is woken by nobody: that would be a schedule without an end. */
void os_wait(_Atomic uint32_t *word, uint32_t expected, uint64_t timeout_ms)
{
    (void)word;
    (void)expected;
    (void)timeout_ms;
    explore_point();
}

static void begin(void)
{
    inbox_start(&inbox, memory, CAPACITY, SLOT_BYTES);
    for (unsigned i = 0; i < CAPACITY; i++)
        holders[i] = 0;
    published = taken = refused = 0;
}

static void hold(void *slot)
{
    if (holders[number_of(&inbox, slot)]++ != 0)
        explore_fail("a slot is in two hands");
    explore_point();
}

static void let_go(void *slot)
{
    holders[number_of(&inbox, slot)]--;
}

static void fill(bool (*publish)(struct inbox *, void *))
{
    void *slot = inbox_reserve(&inbox);
    if (slot == NULL)
        return;
    hold(slot);
    let_go(slot);
    if (publish(&inbox, slot))
        published++;
    else
        refused++;
}

static void fill_one(void)
{
    fill(inbox_publish);
}

static void send_and_fill(void)
{
    fill(inbox_send);
    fill_one();
}

static void fill_two(void)
{
    fill_one();
    fill_one();
}

static void take(void *(*from)(struct inbox *))
{
    void *slot = from(&inbox);
    if (slot == NULL)
        return;
    hold(slot);
    taken++;
    let_go(slot);
    inbox_return(&inbox, slot);
}

static void take_one(void)
{
    take(inbox_take);
}

static void take_both(void)
{
    take(inbox_take_sent);
    take(inbox_take);
}

/* Two are there and one is taken, so one is there. */
static void begin_filled(void)
{
    begin();
    fill_two();
}

static void look(void)
{
    if (!ring_is_ready(&inbox.ready))
        explore_fail("what was published is not seen");
}

static void take_two(void)
{
    take_one();
    take_one();
}

static void close_it(void)
{
    inbox_close(&inbox);
}

/* All slots are in a ring again, and what was published is what was and can be taken. */
static void end(void)
{
    unsigned left = 0, spare = 0;
    uint64_t number;
    while (inbox_take(&inbox) != NULL || inbox_take_sent(&inbox) != NULL)
        left++;
    while (ring_take(&inbox.spare, &number) == RING_DONE)
        spare++;
    if (left + spare != CAPACITY)
        explore_fail("a slot was lost");
    if (taken + left != published)
        explore_fail("what was published was not taken once");
}

static void end_closed(void)
{
    end();
    if (!inbox_is_over(&inbox))
        explore_fail("a closed inbox that is empty is not over");
}

int main(void)
{
    const struct explore_case cases[] = {
        {"ring: two fill, one takes", 3, 3, begin, {fill_one, fill_two, take_two}, end},
        {"ring: one fills, two take", 3, 3, begin, {fill_two, take_one, take_two}, end},
        {"ring: one looks, one takes", 3, 2, begin_filled, {look, take_one}, end},
        {"ring: one sends, owner and thief take",
         3,
         3,
         begin,
         {send_and_fill, take_both, take_one},
         end},
        {"ring: one sends, one closes",
         3,
         3,
         begin,
         {send_and_fill, take_both, close_it},
         end_closed},
        {"ring: one closes", 3, 3, begin, {fill_two, take_one, close_it}, end_closed},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        explore(&cases[i]);
    return 0;
}
