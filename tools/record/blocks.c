/*
 * blocks.c: the table of live blocks.
 */
#include "blocks.h"

enum { CAPACITY_FIRST_LOG2 = 12 };

static struct block *look(const struct blocks *blocks, uint64_t address)
{
    size_t at = blocks_home(blocks, address), mask = blocks->capacity - 1;
    while (blocks->table[at].address != address && blocks->table[at].address != 0)
        at = (at + 1) & mask;
    return &blocks->table[at];
}

static bool grow(struct blocks *blocks)
{
    struct blocks larger = {.count = blocks->count,
                            .shift = blocks->capacity == 0 ? 64 - CAPACITY_FIRST_LOG2
                                                           : blocks->shift - 1};
    larger.capacity = (size_t)1 << (64 - larger.shift);
    larger.table = table_map_now(larger.capacity * sizeof *larger.table);
    if (larger.table == NULL)
        return false;
    for (size_t i = 0; i < blocks->capacity; i++)
        if (blocks->table[i].address != 0)
            *look(&larger, blocks->table[i].address) = blocks->table[i];
    table_unmap(blocks->table, blocks->capacity * sizeof *blocks->table);
    *blocks = larger;
    return true;
}

struct block *blocks_place(struct blocks *blocks, uint64_t address, bool *is_new)
{
    if (blocks->count >= blocks->capacity / 8 * 5 && !grow(blocks))
        return NULL;
    struct block *block = look(blocks, address);
    *is_new = block->address == 0;
    if (*is_new) {
        blocks->count++;
        block->address = address;
    }
    return block;
}

struct block *blocks_find(struct blocks *blocks, uint64_t address)
{
    if (blocks->capacity == 0)
        return NULL;
    struct block *block = look(blocks, address);
    return block->address == 0 ? NULL : block;
}

void blocks_remove(struct blocks *blocks, struct block *block)
{
    size_t mask = blocks->capacity - 1, hole = (size_t)(block - blocks->table);
    blocks->count--;
    for (size_t at = (hole + 1) & mask; blocks->table[at].address != 0; at = (at + 1) & mask) {
        size_t home = blocks_home(blocks, blocks->table[at].address);
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            blocks->table[hole] = blocks->table[at];
            hole = at;
        }
    }
    blocks->table[hole] = (struct block){0};
}

void blocks_free(struct blocks *blocks)
{
    table_unmap(blocks->table, blocks->capacity * sizeof *blocks->table);
    *blocks = (struct blocks){0};
}
