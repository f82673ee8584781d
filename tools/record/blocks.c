/*
 * blocks.c: the tables of live blocks.
 */
#include "blocks.h"

static const size_t window_bytes = (size_t)1 << WINDOW_SHIFT;

bool blocks_open(struct blocks *blocks)
{
    blocks->windows = table_map(WINDOWS * sizeof *blocks->windows);
    return blocks->windows != NULL;
}

struct block *blocks_make_window(struct blocks *blocks, uint64_t address)
{
    struct block *window = table_map(window_bytes);
    if (window == NULL)
        return NULL;
    blocks->windows[address >> WINDOW_SHIFT & (WINDOWS - 1)] = window;
    return blocks_look(blocks, address);
}

void blocks_close(struct blocks *blocks)
{
    for (unsigned i = 0; i < WINDOWS && blocks->windows != NULL; i++)
        if (blocks->windows[i] != NULL)
            table_unmap(blocks->windows[i], window_bytes);
    table_unmap(blocks->windows, WINDOWS * sizeof *blocks->windows);
}
