/*
 * batch.c: batches, the stacks of unused ones, and the depots' stacks, all lock-free with tags
 * against number reuse.
 *
 * Batches live in chunks made on demand and never unmapped, so a stale number can always be
 * followed; the tag makes the compare-and-swap that follows fail. `count` is 0 while a batch is
 * unused: a reader of a stale number sees an empty batch or a later owner's, never a block that has
 * left.
 *
 * Steps (docs/protocols/batch.md): G1 fill, G2 push; T1 pop, T2 empty. Full and empty stacks share
 * the code.
 */
#include "core/batch.h"

#include "base/bits.h"
#include "core/shard.h"
#include "mem/meta.h"

enum {
    CHUNK_BATCHES = 16,
    CHUNKS = BATCHES_MAX / CHUNK_BATCHES,
    BATCHES_A_CPU_LEAST = 16,
    TRIES_MAX = 16,
};

struct batch {
    _Atomic uint32_t next; /* number of the batch below, 0 is none */
    _Atomic uint32_t count;
    void *_Atomic blocks[BATCH_BLOCKS];
};
_Static_assert(sizeof(struct batch) == 1024, "sixteen lines");

/* A stack's word: number in the low 24 bits, count in the next 8, tag above. */
enum { NUMBER_BITS = 24, COUNT_BITS = 8 };

static struct batch *_Atomic chunks[CHUNKS];
static _Atomic uint32_t numbers_used; /* batches ever made; numbers start at 1 */
static _Atomic uint32_t numbers_limit = BATCHES_A_CPU;
static struct {
    _Alignas(CACHE_LINE_BYTES) struct batch_list list;
} unused[SHARDS_MAX];

static uint32_t word_number(uint64_t word)
{
    return (uint32_t)word & ((1u << NUMBER_BITS) - 1);
}

static uint32_t word_count(uint64_t word)
{
    return (uint32_t)(word >> NUMBER_BITS) & ((1u << COUNT_BITS) - 1);
}

static uint64_t word_after(uint64_t word, uint32_t number, uint32_t count)
{
    uint64_t tag = (word >> (NUMBER_BITS + COUNT_BITS)) + 1;
    return tag << (NUMBER_BITS + COUNT_BITS) | (uint64_t)count << NUMBER_BITS | number;
}

static struct batch *batch_at(uint32_t number)
{
    struct batch *chunk = load(&chunks[(number - 1) / CHUNK_BATCHES], ACQUIRE);
    return &chunk[(number - 1) % CHUNK_BATCHES];
}

/* Backs off after a lost compare-and-swap, longer with each try. */
static void back_off(unsigned tries)
{
    for (unsigned i = 0; i < tries; i++)
        cpu_relax();
}

static bool push(struct batch_list *stack, uint32_t number, uint32_t count_max)
{
    for (unsigned tries = 0; tries < TRIES_MAX; tries++) {
        uint64_t top = load(&stack->top, RELAXED);
        uint32_t count = word_count(top);
        if (count >= count_max)
            return false;
        store(&batch_at(number)->next, word_number(top), RELAXED);
        /* G2 release: publishes the batch's pointers; pairs with T1. The tag defeats reuse of the
         * number. */
        if (compare_swap(&stack->top, &top, word_after(top, number, count + (count_max < 255)),
                         RELEASE, RELAXED))
            return true;
        back_off(tries);
    }
    return false;
}

static uint32_t pop(struct batch_list *stack)
{
    for (unsigned tries = 0; tries < TRIES_MAX; tries++) {
        uint64_t top = load(&stack->top, ACQUIRE);
        uint32_t number = word_number(top);
        if (number == 0)
            return 0;
        uint32_t next = load(&batch_at(number)->next, RELAXED);
        uint32_t count = word_count(top);
        /* T1 acquire: the pointers that G2 published are ours. */
        if (compare_swap(&stack->top, &top, word_after(top, next, count - (count > 0)), ACQUIRE,
                         RELAXED))
            return number;
        back_off(tries);
    }
    return 0;
}

/* Stacks of unused batches do not count them: BATCHES_MAX bounds them already. */
enum { UNCOUNTED = 255 };

/* Makes the chunk of `number` if there is none. Two threads may both make it; the loser's is never
 * used. False: no memory. */
static bool chunk_ready(uint32_t number)
{
    struct batch *_Atomic *chunk = &chunks[(number - 1) / CHUNK_BATCHES];
    if (load(chunk, ACQUIRE) != NULL)
        return true;
    struct batch *made = (struct batch *)meta_alloc(CHUNK_BATCHES * sizeof(struct batch),
                                                    CACHE_LINE_BYTES);
    struct batch *expected = NULL;
    if (made == NULL)
        return load(chunk, ACQUIRE) != NULL;
    compare_swap(chunk, &expected, made, RELEASE, RELAXED);
    return true;
}

void batch_set_limit(unsigned cpu_count, size_t bytes_most)
{
    size_t least = (size_t)cpu_count * BATCHES_A_CPU_LEAST;
    size_t most = size_min((size_t)cpu_count * BATCHES_A_CPU, BATCHES_MAX);
    store(&numbers_limit, (uint32_t)size_min(size_max(bytes_most / BATCH_BYTES, least), most),
          RELAXED);
}

size_t batch_bytes_limit(void)
{
    return (size_t)load(&numbers_limit, RELAXED) * BATCH_BYTES;
}

/* An empty batch: the stack's own, to keep contention off the shared stacks; its shard's; another
 * shard's; or a new one. 0: none. */
static uint32_t batch_acquire(struct batch_stack *stack)
{
    uint32_t number = pop(&stack->empty);
    if (number == 0)
        number = pop(&unused[stack->shard].list);
    for (unsigned i = 1; i < shard_count && number == 0; i++)
        number = pop(&unused[shard_after(stack->shard, i)].list);
    if (number != 0)
        return number;
    uint32_t used = load(&numbers_used, RELAXED);
    if (used >= load(&numbers_limit, RELAXED) || !chunk_ready(used + 1))
        return 0;
    return compare_swap(&numbers_used, &used, used + 1, RELAXED, RELAXED) ? used + 1 : 0;
}

/* Makes an empty batch available to all stacks. A batch that loses every try is lost: 1 KiB of
 * metadata. */
static void discard(const struct batch_stack *stack, uint32_t number)
{
    struct batch_list *list = &unused[stack->shard].list;
    for (unsigned tries = 0; tries < TRIES_MAX && !push(list, number, UNCOUNTED); tries++)
        continue;
}

static void batch_release(struct batch_stack *stack, uint32_t number)
{
    if (!push(&stack->empty, number, BATCHES_EMPTY))
        discard(stack, number);
}

void batch_drop_empty(struct batch_stack *stack)
{
    for (unsigned i = 0; i < BATCHES_EMPTY; i++) {
        uint32_t number = pop(&stack->empty);
        if (number == 0)
            return;
        discard(stack, number);
    }
}

static void fill(uint32_t number, void *const *blocks, size_t count)
{
    struct batch *batch = batch_at(number);
    UNROLLED
    for (size_t i = 0; i < count; i++) /* G1: no thread reads beyond count, which is still 0 */
        store(&batch->blocks[i], blocks[i], RELAXED);
    store(&batch->count, (uint32_t)count, RELEASE);
}

bool batch_push(struct batch_stack *stack, void *const *blocks, size_t count, uint32_t batches_max)
{
    if (word_count(load(&stack->full.top, RELAXED)) >= batches_max)
        return false;
    uint32_t number = batch_acquire(stack);
    if (number == 0)
        return false;
    fill(number, blocks, count);
    if (push(&stack->full, number, batches_max))
        return true;
    store(&batch_at(number)->count, 0, RELEASE);
    batch_release(stack, number);
    return false;
}

static size_t unload(uint32_t number, void **out)
{
    struct batch *batch = batch_at(number);
    size_t count = load(&batch->count, RELAXED);
    UNROLLED
    for (size_t i = 0; i < count; i++)
        out[i] = load(&batch->blocks[i], RELAXED);
    store(&batch->count, 0, RELEASE); /* T2: before any of its blocks can be handed out */
    return count;
}

size_t batch_pop(struct batch_stack *stack, void **out)
{
    if (word_number(load(&stack->full.top, RELAXED)) == 0)
        return 0;
    uint32_t number = pop(&stack->full);
    if (number == 0)
        return 0;
    size_t count = unload(number, out);
    batch_release(stack, number);
    return count;
}

bool batch_search(const struct batch_stack *stack, struct search *search)
{
    uint32_t number = word_number(load(&stack->full.top, ACQUIRE));
    for (unsigned depth = 0; depth < BATCHES_PER_STACK && number != 0; depth++) {
        const struct batch *batch = batch_at(number);
        uint32_t count = load(&batch->count, ACQUIRE);
        for (uint32_t i = 0; i < count && search_step(search); i++)
            if (load(&batch->blocks[i], RELAXED) == search->block)
                return true;
        number = load(&batch->next, RELAXED);
    }
    return false;
}

bool batch_is_idle(struct batch_stack *stack)
{
    uint32_t tag = (uint32_t)(load(&stack->full.top, RELAXED) >> (NUMBER_BITS + COUNT_BITS));
    bool is_idle = tag == load(&stack->tag_seen, RELAXED);
    store(&stack->tag_seen, tag, RELAXED);
    return is_idle;
}

size_t batch_count(const struct batch_stack *stack)
{
    return word_count(load(&stack->full.top, RELAXED));
}

size_t batch_blocks(const struct batch_stack *stack)
{
    size_t blocks = 0;
    uint32_t number = word_number(load(&stack->full.top, ACQUIRE));
    for (unsigned depth = 0; depth < BATCHES_PER_STACK && number != 0; depth++) {
        blocks += load(&batch_at(number)->count, ACQUIRE);
        number = load(&batch_at(number)->next, RELAXED);
    }
    return blocks;
}

const struct watch_fact batch_facts[] = {
    FACT_AT("batch.chunks", chunks),
    FACT_NUMBER("batch.a_chunk", CHUNK_BATCHES),
    FACT_NUMBER("batch.bytes", sizeof(struct batch)),
    FACT_NUMBER("batch.next", offsetof(struct batch, next)),
    FACT_NUMBER("batch.count", offsetof(struct batch, count)),
    FACT_NUMBER("batch.blocks", offsetof(struct batch, blocks)),
    FACT_NUMBER("batch.number_bits", NUMBER_BITS),
    FACTS_END,
};
