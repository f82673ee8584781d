/*
 * xpattern SEED LIVE REPLACEMENTS WAIT: grow, churn, shrink. Fills LIVE blocks of 15 sizes (16 to
 * 8192 B), replaces a random one REPLACEMENTS times, frees 95 % at random, replaces among the
 * survivors a tenth as often, frees all.
 *
 * Measures time for the whole, and what stays resident at each step when live memory falls to a
 * twentieth but its blocks lie scattered. With WAIT 1 it also samples 1 and 11 s after the shrink
 * and after the end, without calling the allocator meanwhile; waiting is not timed. First and last
 * byte are touched. Does not measure several threads.
 */
#include "workload.h"

static const uint16_t sizes[15] = {16,  32,  48,  64,   96,   128,  192, 256,
                                   384, 512, 768, 1024, 2048, 4096, 8192};

static struct slot {
    unsigned char *block;
    uint32_t bytes;
} *slots;
static uint32_t live;
static uint64_t random_state, check, live_bytes;

static void slot_fill(uint32_t index)
{
    struct slot *slot = &slots[index];
    slot->bytes = sizes[random_below(&random_state, 15)];
    slot->block = allocate(slot->bytes, (unsigned char)index);
    ((volatile unsigned char *)slot->block)[slot->bytes - 1] = (unsigned char)index;
    live_bytes += slot->bytes;
}

static void slot_empty(uint32_t index)
{
    struct slot *slot = &slots[index];
    if (slot->block[slot->bytes - 1] != (unsigned char)index)
        fail("the last byte of a block of %u changed", slot->bytes);
    check += release(slot->block);
    slot->block = NULL;
    live_bytes -= slot->bytes;
}

static void churn(uint32_t among, uint64_t replacements)
{
    for (uint64_t i = 0; i < replacements; i++) {
        uint32_t index = random_below(&random_state, among);
        slot_empty(index);
        slot_fill(index);
    }
}

/* Frees all but `keep` blocks, chosen at random, and moves the survivors' entries to the front of
 * the table.
 */
static void shrink(uint32_t keep)
{
    while (live > keep) {
        uint32_t index = random_below(&random_state, live);
        slot_empty(index);
        live--;
        slots[index] = slots[live];
        if (index != live) {
            /* The entry moved, so its tag must follow. */
            slots[index].block[0] = slots[index].block[slots[index].bytes - 1] = (unsigned char)
                index;
        }
    }
}

int main(int argc, char **argv)
{
    static const double waits[3] = {0, 1, 11};
    struct memory grown, churned, shrunk[3], ended[3];
    random_state = random_stream(argument(argc, argv, 1, "seed"), 0);
    live = (uint32_t)argument(argc, argv, 2, "live");
    uint64_t replacements = argument(argc, argv, 3, "replacements");
    unsigned samples = argument(argc, argv, 4, "wait") != 0 ? 3 : 1;
    slots = calloc(live, sizeof *slots);
    if (slots == NULL)
        fail("no memory for the table");
    start_clock();
    for (uint32_t i = 0; i < live; i++)
        slot_fill(i);
    stop_clock();
    grown = read_memory();
    start_clock();
    churn(live, replacements);
    stop_clock();
    churned = read_memory();
    start_clock();
    shrink(live / 20);
    churn(live, replacements / 10);
    stop_clock();
    double mark = read_clocks().wall;
    for (unsigned i = 0; i < samples; i++) {
        sleep_until(mark + waits[i]);
        shrunk[i] = read_memory();
    }
    double survivors_kib = (double)live_bytes / 1024;
    start_clock();
    shrink(0);
    stop_clock();
    mark = read_clocks().wall;
    for (unsigned i = 0; i < samples; i++) {
        sleep_until(mark + waits[i]);
        ended[i] = read_memory();
    }
    result_number("live_after_shrink_kib", survivors_kib);
    result_memory("grown", grown);
    result_memory("churned", churned);
    static const char *const shrunk_name[3] = {"shrunk_0s", "shrunk_1s", "shrunk_11s"};
    static const char *const ended_name[3] = {"ended_0s", "ended_1s", "ended_11s"};
    for (unsigned i = 0; i < samples; i++) {
        result_memory(shrunk_name[i], shrunk[i]);
        result_memory(ended_name[i], ended[i]);
    }
    return result_print(check);
}
