/*
 * sparse SEED COUNT BYTES TOUCHED: allocates COUNT blocks of BYTES and writes only the first
 * TOUCHED bytes of each, as programs do that ask for a buffer's whole room at once. Frees all at
 * the end.
 *
 * Measures what is resident for each page that was written (`resident_over_touched`): huge pages,
 * and metadata beside blocks, make pages resident that nobody asked for. Does not measure what
 * happens when the rest is written.
 */
#include "written.h"

int main(int argc, char **argv)
{
    uint64_t random = random_stream(argument(argc, argv, 1, "seed"), 0), check = 0;
    uint64_t count = argument(argc, argv, 2, "count");
    size_t bytes = argument(argc, argv, 3, "bytes"), touched = argument(argc, argv, 4, "touched");
    if (count == 0 || touched < sizeof(uint32_t) || touched > bytes || bytes > UINT32_MAX)
        fail("at least one block, and of each at least %zu bytes are written", sizeof(uint32_t));
    struct table table;
    table_open(&table, (uint32_t)count, random);
    held_begin();
    for (uint32_t i = 0; i < count; i++) {
        struct slot slot = {malloc(bytes), (uint32_t)touched, (uint32_t)next_random(&random)};
        if (slot.block == NULL)
            fail("malloc(%zu) returned NULL", bytes);
        memset(slot.block, (unsigned char)i, touched);
        block_stamp(slot.block, slot.bytes, slot.stamp);
        table.slots[i] = slot;
    }
    held_end();
    struct memory full = read_memory();
    for (uint32_t i = 0; i < count; i++) {
        struct slot slot = table.slots[i];
        check = check * 31 + block_check(slot.block, slot.bytes, slot.stamp);
        free(slot.block);
    }
    double touched_kib = (double)(count * ((touched + SLOT_PAGE - 1) / SLOT_PAGE) *
                                  (SLOT_PAGE >> 10));
    result_number("touched_kib", touched_kib);
    result_number("resident_over_touched", (double)full.resident_kib / touched_kib);
    result_number("page_faults", (double)held.faults);
    result_memory("full", full);
    return result_print(check);
}
