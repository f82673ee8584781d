/*
 * pool_model.c: the shipped pool/pool.c under the explorer: remote frees against the owner's
 * allocations, frees and drains.
 *
 * Checked in every schedule: only a free block is handed out; of several frees of one block, unless
 * it is handed out in between, exactly one succeeds; no more requests than calm_pool_bound says are
 * refused in a row while a block is free; every block comes back, and the pool's own walk finds
 * nothing wrong.
 *
 * Not covered: what the machine reorders (the explorer runs all operations in one total order);
 * more than three threads or four preemptions; pools of more than a few words of blocks; quiet
 * before destroy, which the program owes.
 */
#include "explore.h"

#include "pool/pool.c" /* whole, so that its atomic operations stop at the explorer's points */

#include "pool/bound.c"
#include "pool/create.c"
#include "pool/error.c"
#include "pool/plan.c"
#include "pool/pools.c"
#include "pool/stats.c"

enum { BLOCKS = 5, BLOCK_BYTES = 64, CLASSES = 3 };

static _Alignas(64) char memory[32768];
static calm_pool *pool;
static char *blocks[BLOCKS];   /* what the owner took at the beginning */
static unsigned freed[BLOCKS]; /* frees of each that succeeded         */
static unsigned tried[BLOCKS];
static unsigned inside[BLOCKS]; /* frees of each that have not returned */
static unsigned again[BLOCKS];  /* times it was handed out again        */
static unsigned others;         /* free blocks besides                  */
static unsigned remote_calls;   /* as calm_pool_bound says, of the class that has most */

int claim_map(size_t bytes, bool is_huge, void **out)
{
    (void)bytes, (void)is_huge, (void)out;
    return -1;
}

int claim_populate(void *start, size_t bytes)
{
    (void)start, (void)bytes;
    return 0;
}

int claim_lock(void *start, size_t bytes)
{
    return claim_populate(start, bytes);
}

void claim_unlock(void *start, size_t bytes)
{
    (void)start, (void)bytes;
}

void claim_return(void *start, size_t bytes)
{
    (void)start, (void)bytes;
}

static bool is_announced; /* so that of two frees exactly one succeeds, the first ones included */

static void make_pool_of(size_t classes, unsigned flags)
{
    size_t sizes[CLASSES] = {BLOCK_BYTES, 2 * BLOCK_BYTES, 3 * BLOCK_BYTES};
    uint32_t one[] = {100}, several[CLASSES] = {40, 30, 30};
    struct calm_pool_config config = {.block_bytes = sizes,
                                      .percent = classes == 1 ? one : several,
                                      .classes = classes,
                                      .bytes = sizeof memory,
                                      .memory = memory,
                                      .flags = CALM_POOL_LAZY | flags};
    if (pool != NULL)
        calm_pool_destroy(pool);
    struct calm_pool_limits limits;
    if (calm_pool_create(&config, &pool) != 0 || calm_pool_bound(&config, &limits) != 0)
        explore_fail("no pool");
    remote_calls = 0;
    for (size_t i = 0; i < classes; i++)
        if (remote_calls < limits.remote_calls[i])
            remote_calls = limits.remote_calls[i];
    for (unsigned i = 0; i < BLOCKS; i++)
        freed[i] = tried[i] = inside[i] = again[i] = 0;
    others = 0;
    is_announced = false;
}

static void make_pool(void)
{
    make_pool_of(1, 0);
}

/* A pool in which all blocks but BLOCKS are out for good, so that what comes back is told. */
static void begin_unannounced(void)
{
    make_pool();
    void *block;
    for (unsigned i = 0; (block = calm_pool_alloc(pool, 1)) != NULL; i++)
        if (i < BLOCKS)
            blocks[i] = block;
}

static void begin(void)
{
    begin_unannounced();
    calm_pool_free_remote(pool, NULL);
    is_announced = true;
}

/* Several classes, which may borrow, with no block left; those at hand are of all classes, and
 * the two of the first in two words. */
static void begin_with_spill(void)
{
    make_pool_of(CLASSES, CALM_POOL_SPILL);
    calm_pool_free_remote(pool, NULL);
    is_announced = true;
    for (unsigned i = CLASSES; i-- > 0;) {
        char *block;
        for (unsigned n = 0; (block = calm_pool_alloc(pool, (i + 1) * BLOCK_BYTES)) != NULL; n++)
            if (n == 0)
                blocks[i] = block;
            else if (n == (i == 0 ? 64 : 1) && i + CLASSES < BLOCKS)
                blocks[i + CLASSES] = block;
    }
}

/* The first word is out for good; the blocks are the first of the next, which is not begun. They
 * are free, as if freed once. */
static void begin_with_a_word_left(void)
{
    make_pool();
    calm_pool_free_remote(pool, NULL);
    is_announced = true;
    char *block = NULL;
    for (unsigned i = 0; i < 64; i++)
        block = calm_pool_alloc(pool, 1);
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = block + (i + 1) * BLOCK_BYTES;
        freed[i] = 1;
    }
    others = pool->classes[0].blocks - 64 - BLOCKS;
}

/* Whether that many of a block's frees may have succeeded while it was handed out `times` again. */
static bool is_allowed(unsigned i, unsigned times)
{
    bool may_be = freed[i] <= times && times <= freed[i] + inside[i];
    return may_be || (!is_announced && freed[i] == times + 1 && tried[i] > 1);
}

static void note(unsigned i, int error)
{
    tried[i]++;
    inside[i]--;
    freed[i] += error == 0;
    if (error != 0 && error != CALM_EDOUBLE)
        explore_fail("a free of a block was answered with another code");
}

static void remote(unsigned i)
{
    inside[i]++;
    note(i, calm_pool_free_remote(pool, blocks[i]));
}

static void owner(unsigned i)
{
    inside[i]++;
    note(i, calm_pool_free(pool, blocks[i]));
}

/* Which block it got, or BLOCKS. */
static unsigned owner_alloc_of(size_t bytes)
{
    char *block = calm_pool_alloc(pool, bytes);
    if (block == NULL)
        return BLOCKS;
    unsigned i = 0;
    while (i < BLOCKS && blocks[i] != block)
        i++;
    if (i == BLOCKS || !is_allowed(i, again[i] + 1))
        explore_fail("a live block was handed out");
    again[i]++;
    return i;
}

static unsigned owner_alloc(void)
{
    return owner_alloc_of(1);
}

static void end(void)
{
    for (unsigned i = 0; i < BLOCKS; i++) {
        size_t usable = calm_pool_usable_size(pool, blocks[i]);
        if (tried[i] > 0 && !is_allowed(i, again[i]) && !is_allowed(i, again[i] + 1))
            explore_fail("of the frees of a block not exactly one succeeded");
        if (tried[i] > 0 && usable != 0 && calm_pool_free(pool, blocks[i]) != 0)
            explore_fail("a block that was handed out again cannot be freed");
        if (tried[i] > 0 && is_announced && (usable != 0) != (freed[i] == again[i]))
            explore_fail("a block is live that was freed, or free that was not");
        if (tried[i] > 0 && calm_pool_free(pool, blocks[i]) != CALM_EDOUBLE)
            explore_fail("a free block was freed");
    }
    verdict found = pool_verify(pool);
    if (found != NULL)
        explore_fail(found);
    unsigned back = 0;
    for (unsigned nulls = 0; nulls < remote_calls && back <= BLOCKS + others; nulls++)
        for (; back <= BLOCKS + others && calm_pool_alloc(pool, 1) != NULL; nulls = 0)
            back++;
    for (unsigned i = 0; i < BLOCKS; i++)
        back -= tried[i] > 0 || freed[i] > again[i];
    if (back != others)
        explore_fail("a block was lost, or came back twice");
}

/* Requests of each size in turn, until as many rounds as one class may need had no block. */
static void end_with_spill(void)
{
    for (unsigned nulls = 0; nulls < remote_calls; nulls++)
        for (unsigned i = 0; i < CLASSES; i++)
            if (owner_alloc_of((i + 1) * BLOCK_BYTES) != BLOCKS)
                nulls = 0;
    for (unsigned i = 0; i < BLOCKS; i++)
        if (freed[i] != again[i])
            explore_fail("a block was lost");
    verdict found = pool_verify(pool);
    if (found != NULL)
        explore_fail(found);
}

static void remote_0(void)
{
    remote(0);
}

static void remote_0_1(void)
{
    remote(0);
    remote(1);
}

static void remote_1_0(void)
{
    remote(1);
    remote(0);
}

static void remote_3_4(void)
{
    remote(3);
    remote(4);
}

static void remote_3_0(void)
{
    remote(3);
    remote(0);
}

static void remote_3_1(void)
{
    remote(3);
    remote(1);
}

static void owner_0(void)
{
    owner(0);
}

static void owner_frees_and_drains(void)
{
    owner(0);
    calm_pool_drain(pool);
    owner(2);
}

static void owner_allocs(void)
{
    owner_alloc();
    owner_alloc();
    owner_alloc();
}

static void owner_alternates(void)
{
    for (unsigned i = 0; i < 3; i++)
        owner_alloc_of((i % 2 + 1) * BLOCK_BYTES);
}

/* The block that was freed last is the one at hand, and another thread frees it, too. */
static void owner_gets_it_again(void)
{
    owner(0);
    for (unsigned i = 0; i < 2; i++) {
        unsigned got = owner_alloc();
        if (got != BLOCKS)
            owner(got);
    }
    owner_alloc();
}

static void owner_begins_a_word(void)
{
    owner_alloc();
    unsigned got = owner_alloc();
    if (got != BLOCKS)
        owner(got);
}

/* What it frees itself it may get again. */
static void owner_works(void)
{
    owner(1);
    owner_alloc();
    owner(2);
    owner_alloc();
}

static void owner_works_on_0(void)
{
    owner(0);
    owner_alloc();
    owner(2);
    owner_alloc();
}

/* The block that was handed out last is freed by another way. */
static void owner_frees_what_it_got(void)
{
    owner(1);
    unsigned got = owner_alloc();
    if (got != BLOCKS)
        owner(got);
}

int main(void)
{
    const struct explore_case cases[] = {
        {"pool: classes that borrow, while requests alternate",
         2,
         3,
         begin_with_spill,
         {owner_alternates, remote_0, remote_3_1},
         end_with_spill},
        {"pool: two frees of one class, while requests alternate",
         4,
         2,
         begin_with_spill,
         {owner_alternates, remote_3_0},
         end_with_spill},
        {"pool: two remote frees of a block", 4, 2, begin, {remote_0, remote_0}, end},
        {"pool: three remote frees of a block", 3, 3, begin, {remote_0, remote_0, remote_0}, end},
        {"pool: the owner's free against a remote one", 4, 2, begin, {owner_0, remote_0}, end},
        {"pool: the first frees of all, at once",
         4,
         2,
         begin_unannounced,
         {owner_0, remote_0},
         end},
        {"pool: the first frees of all, while the owner works",
         4,
         2,
         begin_unannounced,
         {owner_works_on_0, remote_0_1},
         end},
        {"pool: the owner frees what it got last",
         4,
         2,
         begin,
         {owner_frees_what_it_got, remote_1_0},
         end},
        {"pool: the owner frees and drains",
         2,
         3,
         begin,
         {owner_frees_and_drains, remote_0_1, remote_1_0},
         end},
        {"pool: the owner allocates", 3, 3, begin, {owner_allocs, remote_0_1, remote_1_0}, end},
        {"pool: the owner frees and allocates", 4, 2, begin, {owner_works, remote_0_1}, end},
        {"pool: the first frees of all, of the block that comes and goes",
         3,
         2,
         begin_unannounced,
         {owner_gets_it_again, remote_0},
         end},
        {"pool: a free of what is not handed out yet, while the owner begins its word",
         4,
         2,
         begin_with_a_word_left,
         {owner_begins_a_word, remote_3_4},
         end},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        explore(&cases[i]);
    return 0;
}
