/*
 * kernel.h: what the simulated machine's kernel tells the program beside os/os.h.
 */
#ifndef CALM_BENCH_KERNEL_H
#define CALM_BENCH_KERNEL_H

#include <stdint.h>

/* Before the heap is used. */
void kernel_set_processors(unsigned count);

/* Every `cores` processors in a row share a last-level cache; 0: all do. Before the heap is used.
 */
void kernel_set_chiplets(unsigned cores);

/* As with the option of that name. */
void kernel_set_shards(unsigned shards);

/* The area that all cores share says which core runs. */
void kernel_on_switch(unsigned core);

uint64_t kernel_random(uint64_t *state);

struct kernel_counts {
    uint64_t sleeps, wakes;
};
struct kernel_counts kernel_counts(void);

#endif
