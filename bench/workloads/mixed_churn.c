/*
 * mixed_churn SEED LIVE OPERATIONS: keeps LIVE blocks of seven sizes, 16 to 1024 B, each as likely,
 * and OPERATIONS times frees a random one and allocates another of a random size. Each free and
 * each malloc is timed for itself.
 *
 * Measures the tail where sizes change from call to call: beside the percentiles of both calls, of
 * both together how many in a million take longer than 100 ns (`slow_a_million`) and the longest
 * (`worst_ns`). `nothing_a_million` is the same of empty measurements, one with each operation:
 * what the machine alone does. The block's stamps are read before its free, so it is warm then.
 * Does not measure one size (churn) or other threads.
 */
#include "tail.h"

enum { SIZES = 7 };

static const uint16_t mixed_sizes[SIZES] = {16, 32, 64, 128, 256, 512, 1024};

static struct held {
    void *block;
    size_t bytes;
} *slots;
static uint64_t random_state, check;
static struct tail mallocs, frees, both, nothings;

static size_t draw(void)
{
    return mixed_sizes[random_below(&random_state, SIZES)];
}

static void churn(uint32_t live, uint64_t operations)
{
    for (uint64_t i = 0; i < operations; i++) {
        uint32_t slot = random_below(&random_state, live);
        timed_free(&frees, slots[slot].block, slots[slot].bytes, slot);
        slots[slot].bytes = draw();
        slots[slot].block = timed_malloc(&mallocs, slots[slot].bytes, slot);
        check += slot + slots[slot].bytes;
        uint64_t before = ticks_before(), after = ticks_after();
        tail_add(&nothings, before, after);
    }
}

int main(int argc, char **argv)
{
    random_state = random_stream(argument(argc, argv, 1, "seed"), 0);
    uint32_t live = (uint32_t)argument(argc, argv, 2, "live");
    uint64_t operations = argument(argc, argv, 3, "operations");
    slots = calloc(live, sizeof *slots);
    if (slots == NULL || operations == 0)
        fail("at least one block and one operation, and memory for the slots");
    tail_begin();
    for (uint32_t slot = 0; slot < live; slot++) {
        slots[slot].bytes = draw();
        slots[slot].block = allocate(slots[slot].bytes, 0);
        stamp_put(slots[slot].block, slots[slot].bytes, slot);
    }
    start_clock();
    churn(live, operations);
    stop_clock();
    tail_merge(&both, &mallocs);
    tail_merge(&both, &frees);
    tail_result_empty();
    tail_result("malloc", &mallocs);
    tail_result("free", &frees);
    tail_result("nothing", &nothings);
    result_number("slow_a_million", tail_share_over(&both, 100) * 1e6);
    result_number("nothing_a_million", tail_share_over(&nothings, 100) * 1e6);
    result_number("worst_ns", tail_percentile(&both, 100));
    for (uint32_t slot = 0; slot < live; slot++) {
        stamp_verify(slots[slot].block, slots[slot].bytes, slot);
        free(slots[slot].block);
    }
    free(slots);
    return result_print(check);
}
