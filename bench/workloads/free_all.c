/*
 * free_all SEED COUNT BYTES WAIT: allocates COUNT blocks, frees them all in order, and never calls
 * the allocator again. With WAIT 1 it samples resident memory at 0, 1 and 11 s after the last free
 * and after asking the library to give back, else at 0 s only.
 *
 * Measures whether an idle process gives memory back without being asked. The blocks form a list
 * through their own first bytes, so there is no table beside them. Waiting and sampling are not
 * timed. Does not measure scattered survivors (see `grow_churn_shrink`).
 */
#include "resident.h"

enum { PARTS = 16 };

struct node {
    struct node *next;
    uint64_t number;
};

int main(int argc, char **argv)
{
    uint64_t random = random_stream(argument(argc, argv, 1, "seed"), 0), check = 0, expected = 0;
    uint64_t count = argument(argc, argv, 2, "count");
    size_t bytes = argument(argc, argv, 3, "bytes");
    bool waits = argument(argc, argv, 4, "wait") != 0;
    uint64_t part = count / PARTS + 1;
    struct node *first = NULL, **link = &first;
    if (bytes < sizeof(struct node))
        fail("blocks of at least %zu bytes", sizeof(struct node));
    watch_start();
    struct memory start = watch_sample();
    start_clock();
    for (uint64_t i = 0; i < count; i++) {
        if (i % part == part - 1) {
            stop_clock();
            watch_sample();
            start_clock();
        }
        struct node *node = allocate(bytes, 0);
        node->number = next_random(&random);
        expected += node->number;
        *link = node;
        link = &node->next;
    }
    *link = NULL;
    stop_clock();
    struct memory full = watch_sample();
    start_clock();
    for (struct node *node = first, *next; node != NULL; node = next) {
        next = node->next;
        check += node->number;
        free(node);
    }
    stop_clock();
    struct aftermath after = watch_aftermath(waits);
    if (check != expected)
        fail("the blocks' contents changed");
    result_memory("start", start);
    result_memory("full", full);
    result_aftermath("", &after);
    result_watch();
    return result_print(check);
}
