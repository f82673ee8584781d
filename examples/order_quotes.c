/*
 * order_quotes.c: a trading loop that says before it starts what memory can cost in a tick.
 *
 * Each tick brings orders and cancels, answers with quotes, and hands the quotes to a publisher on
 * another thread, which frees them there. The loop makes at most CALLS_A_TICK calls on its pool,
 * whatever the market does; calm_pool_bound says what each can cost on this build; the product is
 * the budget. Scratch memory of a tick is a region in one of the pool's blocks.
 *
 *     cc order_quotes.c $(pkg-config --cflags --libs calmpool) -lpthread
 */
#include <calmalloc/pool.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    TICKS = 20000,
    ORDERS_A_TICK = 8, /* taken in, and as many cancelled at most */
    BOOK_MAX = 4096,
    RING = 1024, /* quotes on their way to the publisher */
    SCRATCH_BYTES = 8192,
    /* an order and a quote for each, their cancels, a quote that found no place, the scratch block
     */
    CALLS_A_TICK = 4 * ORDERS_A_TICK + 2,
};

struct order {
    uint64_t number;
    uint32_t price, lots;
    char symbol[24];
};

struct quote {
    uint64_t order;
    uint32_t bid, ask;
    char text[80];
};

struct desk {
    calm_pool *pool;
    struct order *book[BOOK_MAX];
    size_t orders;
    unsigned calls; /* on the pool, in this tick */
    unsigned most_calls;
    unsigned refused; /* orders and quotes that there was no memory for: answered, not waited for */
};

static struct quote *_Atomic ring[RING];
static atomic_bool is_closed;
static atomic_uint published;

/* The publisher: sends quotes, and frees them where it is. */
static void *publish(void *argument)
{
    calm_pool *pool = argument;
    for (size_t at = 0;;) {
        bool was_closed = atomic_load(&is_closed);
        struct quote *quote = atomic_exchange(&ring[at], NULL);
        if (quote == NULL) {
            if (was_closed)
                return NULL;
            sched_yield();
            continue;
        }
        atomic_fetch_add(&published, quote->bid < quote->ask);
        if (calm_pool_free_remote(pool, quote) != 0)
            abort();
        at = (at + 1) % RING;
    }
}

static void *take(struct desk *desk, size_t bytes)
{
    desk->calls++;
    void *block = calm_pool_alloc(desk->pool, bytes);
    desk->refused += block == NULL;
    return block;
}

static void give(struct desk *desk, void *block)
{
    desk->calls++;
    int error = calm_pool_free(desk->pool, block);
    if (error != 0) {
        fprintf(stderr, "order_quotes: %s\n", calm_strerror(error));
        abort();
    }
}

static void quote(struct desk *desk, const struct order *order, size_t *sent)
{
    struct quote *answer = take(desk, sizeof *answer);
    if (answer == NULL)
        return;
    answer->order = order->number;
    answer->bid = order->price - 1;
    answer->ask = order->price + 1;
    struct quote *nobody = NULL;
    if (atomic_compare_exchange_strong(&ring[*sent], &nobody, answer))
        *sent = (*sent + 1) % RING;
    else
        give(desk, answer); /* the publisher is behind: drop it, do not wait */
}

static void tick(struct desk *desk, uint64_t now, uint32_t *random, size_t *sent)
{
    desk->calls = 0;
    struct calm_region scratch;
    void *room = take(desk, SCRATCH_BYTES);
    if (calm_region_init(&scratch, room, SCRATCH_BYTES) != 0)
        return;
    for (unsigned i = 0; i < ORDERS_A_TICK; i++) {
        *random = *random * 1664525u + 1013904223u;
        uint32_t *levels = calm_region_alloc(&scratch, 64 * sizeof *levels, 64);
        if (levels == NULL)
            break;
        levels[*random >> 26] = *random;
        struct order *order = desk->orders < BOOK_MAX ? take(desk, sizeof *order) : NULL;
        if (order != NULL) {
            *order = (struct order){.number = now * ORDERS_A_TICK + i, .price = *random >> 16};
            order->price += 2;
            desk->book[desk->orders++] = order;
            quote(desk, order, sent);
        }
        if (desk->orders > 0 && *random % 100 < 45) {
            size_t victim = *random % desk->orders;
            give(desk, desk->book[victim]);
            desk->book[victim] = desk->book[--desk->orders];
        }
    }
    give(desk, room);
    if (desk->calls > desk->most_calls)
        desk->most_calls = desk->calls;
}

int main(void)
{
    size_t sizes[] = {sizeof(struct order), sizeof(struct quote), SCRATCH_BYTES};
    uint32_t shares[] = {55, 35, 10};
    struct calm_pool_config config = {.block_bytes = sizes,
                                      .percent = shares,
                                      .classes = 3,
                                      .bytes = 512 * 1024,
                                      .flags = CALM_POOL_SPILL};
    struct calm_pool_limits limits;
    static struct desk desk;
    int error = calm_pool_bound(&config, &limits);
    if (error == 0)
        error = calm_pool_create(&config, &desk.pool);
    if (error != 0) {
        fprintf(stderr, "order_quotes: %s\n", calm_strerror(error));
        return 1;
    }
    uint32_t each = limits.alloc.instructions > limits.free.instructions ? limits.alloc.instructions
                                                                         : limits.free.instructions;
    printf("pool: %zu of %zu bytes for blocks; %u orders, %u quotes\n", limits.usable_bytes,
           limits.bytes, (unsigned)limits.blocks[0], (unsigned)limits.blocks[1]);
    printf("budget of a tick: %d calls, at most %lu instructions in the allocator\n", CALLS_A_TICK,
           (unsigned long)CALLS_A_TICK * each);

    pthread_t publisher;
    if (pthread_create(&publisher, NULL, publish, desk.pool) != 0)
        return 1;
    uint32_t random = 1;
    size_t sent = 0;
    for (uint64_t now = 0; now < TICKS; now++)
        tick(&desk, now, &random, &sent);
    atomic_store(&is_closed, true);
    pthread_join(publisher, NULL); /* quiet: from here on nobody else knows the pool */
    while (desk.orders > 0)
        give(&desk, desk.book[--desk.orders]);

    printf("most calls in a tick: %u; quotes published: %u; refused: %u\n", desk.most_calls,
           (unsigned)atomic_load(&published), desk.refused);
    calm_pool_destroy(desk.pool);
    return desk.most_calls <= CALLS_A_TICK ? 0 : 1;
}
