/*
 * phase SEED PHASES KIB KEEP: PHASES times in turn, allocates KIB of blocks of one size, another in
 * each of ten phases (112 to 3584 B), then frees all but KEEP of a thousand, chosen at random. At
 * the end frees what was kept.
 *
 * Measures how much of the memory that earlier phases needed serves later ones, when a few blocks
 * of each stay and lie scattered: a program that parses, then transforms, then writes, without a
 * pause in which an allocator could give back. Every page of a block is written. Does not measure
 * several threads, nor what is resident later; see lifetime-mix.
 */
#include "slots.h"

enum { PHASE_SIZES = 10, PERMILLE = 1000 };

static const uint16_t phase_sizes[PHASE_SIZES] = {112, 208,  320,  448,  640,
                                                  896, 1280, 1792, 2560, 3584};

static void fill(struct table *table, uint64_t phase, uint64_t bytes_wanted)
{
    uint64_t before = table->live_bytes;
    while (table->live_bytes - before < bytes_wanted) {
        if (table->live == table->capacity)
            fail("more than %u blocks", table->capacity);
        uint32_t bytes = phase_sizes[phase % PHASE_SIZES];
        slot_hold(table, table->live, slot_site(bytes), bytes);
        table->live++;
    }
}

/* Of the blocks from `first` on, in the order in which they were asked for. */
static void thin(struct table *table, uint32_t first, uint32_t keep_permille)
{
    uint32_t kept = first;
    for (uint32_t index = first; index < table->live; index++) {
        if (random_below(&table->random, PERMILLE) < keep_permille)
            table->slots[kept++] = table->slots[index];
        else
            slot_empty(table, index);
    }
    table->live = kept;
}

int main(int argc, char **argv)
{
    struct table table;
    uint64_t random = random_stream(argument(argc, argv, 1, "seed"), 0);
    uint64_t phases = argument(argc, argv, 2, "phases");
    uint64_t bytes = argument(argc, argv, 3, "kib") << 10;
    uint32_t keep = (uint32_t)argument(argc, argv, 4, "keep");
    if (phases == 0 || phases > 1000 || keep > PERMILLE)
        fail("1 to 1000 phases that keep at most %d of a thousand", PERMILLE);
    uint64_t blocks = bytes / phase_sizes[0] + 1;
    table_open(&table, (uint32_t)(blocks + blocks * phases * keep / PERMILLE), random);
    start_clock();
    for (uint64_t phase = 0; phase < phases; phase++) {
        uint32_t first = table.live;
        fill(&table, phase, bytes);
        thin(&table, first, keep);
    }
    stop_clock();
    result_number("live_kib", (double)table.live_bytes / 1024);
    result_memory("kept", read_memory());
    start_clock();
    thin(&table, 0, 0);
    stop_clock();
    return result_print(table.check);
}
