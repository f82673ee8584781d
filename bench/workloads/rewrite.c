/*
 * rewrite SEED LIVE LEAST MOST REPLACEMENTS: keeps LIVE blocks of LEAST to MOST bytes, multiples of
 * 8 and all as likely, and REPLACEMENTS times frees a random one and allocates another in its
 * place. Every byte of every block is written.
 *
 * Measures what large blocks cost that are really used: how much is resident for each byte that is
 * live (`resident_over_live`, the mean of samples), and how often the kernel is asked for pages
 * that were there a moment before (`page_faults`, CPU time). An allocator that gives pages back too
 * soon pays in faults, one that keeps them in memory. Does not measure blocks of which little is
 * touched (replace), nor ones that grow (resize).
 */
#include "written.h"

enum { GRANULE = 8 };

static uint32_t least, most;

static void fill(struct table *table, uint32_t index)
{
    uint32_t bytes = least + GRANULE * random_below(&table->random, (most - least) / GRANULE + 1);
    unsigned char *block = slot_site(bytes);
    if (block != NULL)
        memset(block, (unsigned char)bytes, bytes);
    slot_hold(table, index, block, bytes);
}

int main(int argc, char **argv)
{
    struct table table;
    uint64_t random = random_stream(argument(argc, argv, 1, "seed"), 0);
    uint32_t live = (uint32_t)argument(argc, argv, 2, "live");
    least = (uint32_t)argument(argc, argv, 3, "least");
    most = (uint32_t)argument(argc, argv, 4, "most");
    uint64_t replacements = argument(argc, argv, 5, "replacements");
    if (live == 0 || least < SLOT_PAGE || least % GRANULE != 0 || most < least)
        fail("at least one block, and lengths from %d bytes on, multiples of %d", SLOT_PAGE,
             GRANULE);
    table_open(&table, live, random);
    held_begin();
    while (table.live < live)
        fill(&table, table.live++);
    for (uint64_t i = 0; i < replacements; i++) {
        uint32_t index = random_below(&table.random, live);
        slot_empty(&table, index);
        fill(&table, index);
        held_step(i, replacements, table.live_bytes);
    }
    held_end();
    table_shrink(&table, 0);
    held_result();
    return result_print(table.check);
}
