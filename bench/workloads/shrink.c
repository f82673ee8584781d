/*
 * shrink SEED COUNT BYTES ORDER: allocates COUNT blocks and touches each, then frees all of them,
 * and times each free by itself. ORDER 0: in the order in which they came; 1: at random.
 *
 * Measures how long a single free takes while a program shrinks, and so what giving memory back
 * costs whoever frees, where no other thread does. Each block carries its number in its first and
 * last eight bytes, read before its free. Does not measure whether memory goes back (`free_all`).
 */
#include "tail.h"

static struct tail frees;

int main(int argc, char **argv)
{
    uint64_t random = random_stream(argument(argc, argv, 1, "seed"), 0), check = 0;
    uint64_t count = argument(argc, argv, 2, "count");
    size_t bytes = argument(argc, argv, 3, "bytes");
    bool is_random = argument(argc, argv, 4, "order") != 0;
    struct slot {
        void *block;
        uint64_t number;
    } *slots = calloc(count, sizeof *slots);
    if (bytes < 16 || slots == NULL)
        fail("blocks of at least 16 bytes, and memory for their list");
    tail_begin();
    for (uint64_t i = 0; i < count; i++) {
        slots[i] = (struct slot){allocate(bytes, 0), i};
        stamp_put(slots[i].block, bytes, i);
    }
    for (uint64_t i = count; is_random && i > 1; i--) {
        uint64_t other = random_below(&random, (uint32_t)i);
        struct slot moved = slots[i - 1];
        slots[i - 1] = slots[other];
        slots[other] = moved;
    }
    start_clock();
    for (uint64_t i = 0; i < count; i++) {
        timed_free(&frees, slots[i].block, bytes, slots[i].number);
        check += slots[i].number;
    }
    stop_clock();
    tail_result_empty();
    tail_result("free", &frees);
    free(slots);
    return result_print(check);
}
