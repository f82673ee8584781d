/*
 * rseq_x86_64.h for models: found before the real one, so that a sequence stops between any two
 * of its instructions that touch shared words, and asks the explorer who goes on.
 *
 * A core is a number that the model writes into each thread's area, as the kernel does. What would
 * make the kernel abort a sequence, the model remembers, and the sequence ends at its next step:
 * nothing more is stored. The last store and the look before it are one step; what a thread does
 * once it has changed a slot is another.
 */
#ifndef CALM_OS_LINUX_RSEQ_X86_64_H
#define CALM_OS_LINUX_RSEQ_X86_64_H

#include "os/rseq.h"

/* The model's part. A sequence begins on the core that is returned; whether it goes on, at each
 * step; its last store, into what lies at `base`, or of `desired` into a slot. */
uint32_t model_sequence_begins(const struct rseq_area *area);
bool model_sequence_goes_on(void);
void model_commits_in(void *base);
void model_commits_slot(void *desired);
void model_slot_is_changed(void);

ALWAYS_INLINE uint32_t *rseq_word(char *base, size_t offset)
{
    return (uint32_t *)(void *)(base + offset);
}

ALWAYS_INLINE void *rseq_pop(struct rseq_area *area, struct rseq_slot *slots, size_t offset)
{
    uint32_t core = model_sequence_begins(area);
    if (!model_sequence_goes_on())
        return NULL;
    char *base = atomic_load(&slots[core].base);
    if (!model_sequence_goes_on())
        return NULL;
    uint32_t top = *rseq_word(base, offset + 8);
    if (!model_sequence_goes_on())
        return NULL;
    void *block = *(void **)(void *)(base + top);
    if (block == NULL || !model_sequence_goes_on())
        return NULL;
    model_commits_in(base);
    *rseq_word(base, offset + 8) = top - 8;
    return block;
}

ALWAYS_INLINE bool rseq_push(struct rseq_area *area, struct rseq_slot *slots, size_t offset,
                             void *block)
{
    uint32_t core = model_sequence_begins(area);
    if (!model_sequence_goes_on())
        return false;
    char *base = atomic_load(&slots[core].base);
    if (!model_sequence_goes_on())
        return false;
    uint32_t top = *rseq_word(base, offset + 8) + 8;
    if (!model_sequence_goes_on() || top > *rseq_word(base, offset + 12))
        return false;
    if (!model_sequence_goes_on())
        return false;
    *(void **)(void *)(base + top) = block;
    if (!model_sequence_goes_on())
        return false;
    model_commits_in(base);
    *rseq_word(base, offset + 8) = top;
    return true;
}

ALWAYS_INLINE int rseq_swap(struct rseq_area *area, struct rseq_slot *slots, void *expected,
                            void *desired)
{
    uint32_t core = model_sequence_begins(area);
    if (!model_sequence_goes_on() || atomic_load(&slots[core].base) != expected ||
        !model_sequence_goes_on())
        return -1;
    model_commits_slot(desired);
    atomic_store(&slots[core].base, desired);
    model_slot_is_changed();
    return (int)core;
}

#endif
