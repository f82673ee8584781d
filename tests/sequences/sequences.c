/*
 * sequences.c: a library of the three sequences and nothing else, for tests that change them.
 */
#include "os/rseq.h"

void *pop(struct rseq_area *area, struct rseq_slot *slots, size_t offset);
bool push(struct rseq_area *area, struct rseq_slot *slots, size_t offset, void *block);
int swap(struct rseq_area *area, struct rseq_slot *slots, void *expected, void *desired);

void *pop(struct rseq_area *area, struct rseq_slot *slots, size_t offset)
{
    return rseq_pop(area, slots, offset);
}

bool push(struct rseq_area *area, struct rseq_slot *slots, size_t offset, void *block)
{
    return rseq_push(area, slots, offset, block);
}

int swap(struct rseq_area *area, struct rseq_slot *slots, void *expected, void *desired)
{
    return rseq_swap(area, slots, expected, desired);
}
