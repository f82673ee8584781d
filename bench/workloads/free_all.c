/*
 * free_all SEED COUNT BYTES WAIT: allocates COUNT blocks, frees them all in order, and never calls
 * the allocator again. With WAIT 1 it samples resident memory at 0, 1 and 11 s after the last free,
 * else at 0 s only.
 *
 * Measures whether an idle process gives memory back without being asked. The blocks form a list
 * through their own first bytes, so there is no table beside them. Waiting is not timed. Does not
 * measure scattered survivors (see `xpattern`).
 */
#include "workload.h"

struct node {
    struct node *next;
    uint64_t number;
};

int main(int argc, char **argv)
{
    static const double waits[3] = {0, 1, 11};
    static const char *const names[3] = {"0s", "1s", "11s"};
    struct memory start, full, samples[3];
    uint64_t random = random_stream(argument(argc, argv, 1, "seed"), 0), check = 0, expected = 0;
    uint64_t count = argument(argc, argv, 2, "count");
    size_t bytes = argument(argc, argv, 3, "bytes");
    unsigned wanted = argument(argc, argv, 4, "wait") != 0 ? 3 : 1;
    struct node *first = NULL, **link = &first;
    if (bytes < sizeof(struct node))
        fail("blocks of at least %zu bytes", sizeof(struct node));
    start = read_memory();
    start_clock();
    for (uint64_t i = 0; i < count; i++) {
        struct node *node = allocate(bytes, 0);
        node->number = next_random(&random);
        expected += node->number;
        *link = node;
        link = &node->next;
    }
    *link = NULL;
    stop_clock();
    full = read_memory();
    start_clock();
    for (struct node *node = first, *next; node != NULL; node = next) {
        next = node->next;
        check += node->number;
        free(node);
    }
    stop_clock();
    double mark = read_clocks().wall;
    for (unsigned i = 0; i < wanted; i++) {
        sleep_until(mark + waits[i]);
        samples[i] = read_memory();
    }
    if (check != expected)
        fail("the blocks' contents changed");
    result_memory("start", start);
    result_memory("full", full);
    for (unsigned i = 0; i < wanted; i++)
        result_memory(names[i], samples[i]);
    return result_print(check);
}
