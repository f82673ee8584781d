/*
 * slots.h: tables of live blocks of 15 sizes (16 to 8192 B), for workloads that ask what stays
 * resident beside what is live.
 *
 * Every page of a block is written, so that resident memory cannot be less than what is live. A
 * block carries its stamp at its start, on each further page and at its end; all are compared when
 * it is freed, so that blocks that overlap or were given back to the kernel while live end the run.
 * Blocks come from one call site, whatever the compiler inlines, unless a workload says otherwise.
 * A table lies in a mapping of its own and its unused end is given back: it costs the same under
 * every allocator, and next to nothing when few blocks are left.
 */
#ifndef CALM_BENCH_SLOTS_H
#define CALM_BENCH_SLOTS_H

#include "workload.h"

#include <sys/mman.h>

enum { SLOT_PAGE = 4096, SLOT_SIZES = 15 };

static const uint16_t slot_sizes[SLOT_SIZES] = {16,  32,  48,  64,   96,   128,  192, 256,
                                                384, 512, 768, 1024, 2048, 4096, 8192};

/* A call site of malloc. The empty asm keeps the call from being the last thing the function does,
 * and names the site so that none is merged with another. */
#define CALL_SITE(name, number)                                                                    \
    static __attribute__((noinline)) void *name(size_t bytes)                                      \
    {                                                                                              \
        void *block = malloc(bytes);                                                               \
        __asm__ volatile("" : "+r"(block) : "i"(number));                                          \
        return block;                                                                              \
    }

CALL_SITE(slot_site, -1)

struct slot {
    unsigned char *block;
    uint32_t bytes;
    uint32_t stamp;
};

struct table {
    struct slot *slots;
    uint32_t capacity;
    uint32_t live;
    uint64_t live_bytes;
    uint64_t random;
    uint64_t check;
    void *(*replacing_site)(size_t bytes);
};

static inline void table_open(struct table *table, uint32_t capacity, uint64_t random)
{
    *table = (struct table){.capacity = capacity, .random = random, .replacing_site = slot_site};
    table->slots = mmap(NULL, (size_t)capacity * sizeof(struct slot) + 1, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (table->slots == MAP_FAILED)
        fail("no memory for a table of %u blocks", capacity);
}

static inline void table_close(struct table *table)
{
    munmap(table->slots, (size_t)table->capacity * sizeof(struct slot) + 1);
    table->slots = NULL;
}

/* Gives back the pages of the table behind its live entries. */
static inline void table_tighten(struct table *table)
{
    size_t used = ((size_t)table->live * sizeof(struct slot) + SLOT_PAGE - 1) & -SLOT_PAGE;
    size_t size = ((size_t)table->capacity * sizeof(struct slot) + SLOT_PAGE) & -SLOT_PAGE;
    if (used < size && madvise((char *)table->slots + used, size - used, MADV_DONTNEED) != 0)
        fail("the table's end could not be given back");
}

static inline uint32_t table_draw_size(struct table *table)
{
    return slot_sizes[random_below(&table->random, SLOT_SIZES)];
}

static inline void block_stamp(unsigned char *block, uint32_t bytes, uint32_t stamp)
{
    for (uint32_t at = 0; at < bytes; at += SLOT_PAGE)
        memcpy(block + at, &stamp, sizeof stamp);
    memcpy(block + bytes - sizeof stamp, &stamp, sizeof stamp);
}

/* Returns the stamp that the block holds, which is the right one. */
static inline uint32_t block_check(const unsigned char *block, uint32_t bytes, uint32_t stamp)
{
    uint32_t found, wrong = 0;
    for (uint32_t at = 0; at < bytes; at += SLOT_PAGE) {
        memcpy(&found, block + at, sizeof found);
        wrong |= found ^ stamp;
    }
    memcpy(&found, block + bytes - sizeof found, sizeof found);
    if ((wrong | (found ^ stamp)) != 0)
        fail("the contents of a live block of %u bytes changed", bytes);
    return found;
}

/* Puts a new block of `bytes` into slot `index`. */
static inline void slot_hold(struct table *table, uint32_t index, void *block, uint32_t bytes)
{
    if (block == NULL)
        fail("malloc(%u) returned NULL", bytes);
    struct slot slot = {block, bytes, (uint32_t)(next_random(&table->random) >> 32)};
    block_stamp(slot.block, bytes, slot.stamp);
    table->slots[index] = slot;
    table->live_bytes += bytes;
}

static inline void slot_fill(struct table *table, uint32_t index)
{
    uint32_t bytes = table_draw_size(table);
    slot_hold(table, index, slot_site(bytes), bytes);
}

static inline void slot_empty(struct table *table, uint32_t index)
{
    struct slot *slot = &table->slots[index];
    table->check = table->check * 31 + block_check(slot->block, slot->bytes, slot->stamp);
    table->live_bytes -= slot->bytes;
    free(slot->block);
}

static inline void table_grow(struct table *table, uint32_t live)
{
    while (table->live < live)
        slot_fill(table, table->live++);
}

/* Replaces a random live block `count` times. */
static inline void table_churn(struct table *table, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        uint32_t index = random_below(&table->random, table->live);
        slot_empty(table, index);
        uint32_t bytes = table_draw_size(table);
        slot_hold(table, index, table->replacing_site(bytes), bytes);
    }
}

/* Frees blocks at random until `live` are left, which move to the front of the table. */
static inline void table_shrink(struct table *table, uint32_t live)
{
    while (table->live > live) {
        uint32_t index = random_below(&table->random, table->live);
        slot_empty(table, index);
        table->slots[index] = table->slots[--table->live];
    }
}

#endif
