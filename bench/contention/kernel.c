/*
 * kernel.c: os/os.h for the simulated machine: as many processors as it has cores, sleeping is
 * simulated, memory is real (os/linux/memory.c) and its calls cost nothing.
 *
 * The purger's helper never runs: it would be a core more. Options are the defaults, but for
 * `cores` and `shards`.
 */
#include "kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/check.h"
#include "core/heap.h"
#include "front/options.h"
#include "machine.h"
#include "os/modules.h"
#include "os/rseq.h"
#include "os/stack.h"
#include "os/symbols.h"
#include "site/learned.h"
#include "site/site.h"
#include "site/wrapper.h"

enum { PAGE_BYTES = 4096, MEMORY_GIB = 16 };

static unsigned processors, chiplet_cores, shards_wanted;
static struct rseq_area area;
static uint64_t random_state = 1;
static struct kernel_counts counts;

void kernel_set_processors(unsigned count)
{
    processors = count;
}

void kernel_set_chiplets(unsigned cores)
{
    chiplet_cores = cores;
}

void kernel_set_shards(unsigned shards)
{
    shards_wanted = shards;
}

void kernel_on_switch(unsigned core)
{
    area.core = area.cpu_id = core;
}

struct kernel_counts kernel_counts(void)
{
    return counts;
}

void heap_configure(const struct os_facts *facts, struct heap_settings *out)
{
    (void)facts;
    *out = (struct heap_settings){
        .purges_on_free = option_value(OPTION_purge) != 0,
        .purge_delay_ms = (uint32_t)option_value(OPTION_purge_delay_ms),
        .cores = CORES_ALWAYS,
        .shards = shards_wanted,
        .cache_bytes_each = (size_t)option_value(OPTION_cache_kb) * 1024 *
                            (BLOCKS_FIXED == 0 ? 1 : 256),
        .stops_on_misuse = true,
        .stops_on_foreign = true,
    };
    site_start((enum site_policy)option_value(OPTION_sites), (size_t)option_value(OPTION_cohorts));
}

/* Nobody looks through wrappers, learns, or keeps sites apart: the policy is the default. */

bool wrapper_has_index(size_t index)
{
    (void)index;
    return false;
}

void wrapper_start(bool is_exact)
{
    (void)is_exact;
}

bool learned_begin(void)
{
    return false;
}

bool learned_watches(size_t index)
{
    (void)index;
    return false;
}

unsigned learned_cohort(size_t index)
{
    (void)index;
    return 0;
}

size_t learned_cohorts(void)
{
    return 1;
}

void intern_allow_quick(bool is_allowed)
{
    (void)is_allowed;
}

struct intern_counts intern_counts(void)
{
    return (struct intern_counts){0};
}

void os_start(struct os_facts *out)
{
    *out = (struct os_facts){
        .page_bytes = PAGE_BYTES,
        .memory_bytes = (size_t)MEMORY_GIB << 30,
        .memory_limit_bytes = SIZE_MAX,
        .cpu_count = processors,
        .core_limit = processors,
    };
}

unsigned os_cpu(void)
{
    return area.cpu_id;
}

unsigned os_cache_groups(uint8_t *group_of_cpu, unsigned cpus)
{
    for (unsigned cpu = 0; cpu < cpus; cpu++)
        group_of_cpu[cpu] = chiplet_cores == 0 ? 0 : (uint8_t)(cpu / chiplet_cores);
    return chiplet_cores == 0 ? 1 : (processors + chiplet_cores - 1) / chiplet_cores;
}

int os_rseq_start(void)
{
    return 0;
}

struct rseq_area *os_rseq_join(void (*on_leave)(void))
{
    (void)on_leave;
    return &area;
}

int os_rseq_fence(void)
{
    return 0;
}

/* Nobody ends in the middle, so nobody asks whose number is in a lock. */
uint32_t os_thread_id(void)
{
    return 1;
}

uint32_t os_process_id(void)
{
    return 1;
}

uint32_t os_thread_id_asked(void)
{
    return 1;
}

bool os_task_has_ended(uint32_t id)
{
    return id == 0;
}

uint32_t os_parent_id(void)
{
    return 0;
}

/* As in a process that is sent none: no shared word is written for them. */
bool os_signals_block(uint64_t *before)
{
    *before = 0;
    return false;
}

void os_signals_restore(uint64_t before)
{
    (void)before;
}

void os_wait(_Atomic uint32_t *word, uint32_t expected, uint64_t timeout_ms)
{
    (void)timeout_ms;
    machine_spend(COST_KERNEL_NS);
    machine_pass();
    if (atomic_load_explicit(word, memory_order_relaxed) != expected)
        return;
    counts.sleeps++;
    machine_sleep(word);
}

void os_wake(_Atomic uint32_t *word, uint32_t count)
{
    counts.wakes++;
    machine_spend(COST_KERNEL_NS);
    machine_wake(word, count, COST_SLEEP_NS);
}

int os_helper_start(void (*body)(void), void *stack, size_t size, _Atomic uint32_t *alive)
{
    (void)body, (void)stack, (void)size, (void)alive;
    return 0;
}

void os_helper_join(_Atomic uint32_t *alive, uint64_t timeout_ms)
{
    (void)alive, (void)timeout_ms;
}

/* SplitMix64 (Steele, Lea, Flood, 2014), so that runs are equal. */
uint64_t kernel_random(uint64_t *state)
{
    uint64_t x = *state += 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

void os_random(void *out, size_t size)
{
    for (size_t i = 0; i < size; i++)
        ((unsigned char *)out)[i] = (unsigned char)kernel_random(&random_state);
}

uint64_t os_clock_ms(void)
{
    return machine_clock() / 1000000;
}

uint64_t os_clock_real_ns(void)
{
    return machine_clock();
}

/* The profiler stays off here. */
size_t os_stack(uintptr_t *callers, size_t max)
{
    (void)callers;
    (void)max;
    return 0;
}

bool os_symbol_find(const void *code, const char *name, struct os_symbol *out)
{
    (void)code;
    (void)name;
    (void)out;
    return false;
}

bool os_module_find(uintptr_t code, struct os_module *out)
{
    (void)code;
    (void)out;
    return false;
}

bool os_is_readable(uintptr_t address)
{
    return address != 0;
}

int os_modules(void (*visit)(const struct os_module *, void *), void *context)
{
    (void)visit;
    (void)context;
    return 0;
}

void os_set_errno(int error)
{
    (void)error;
}

int os_on_thread_exit(void (*on_exit)(void *value))
{
    (void)on_exit;
    return 0;
}

bool os_is_alone(void)
{
    return false;
}

int os_thread_exit_arm(void *value)
{
    (void)value;
    return 0;
}

int os_on_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void))
{
    (void)before, (void)in_parent, (void)in_child;
    return 0;
}

void check_write(const char *words, size_t length)
{
    fwrite(words, 1, length, stderr);
}

void check_abort(void)
{
    abort();
}
