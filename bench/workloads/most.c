/*
 * most SEED LIVE LOW HIGH OPERATIONS THEN: the most instructions of any single call. Fills LIVE
 * slots with blocks of LOW to HIGH bytes; an operation frees a random one and allocates another; at
 * the end all are freed. With THEN above 0 the same follows with blocks of THEN bytes, in the heap
 * that the first part leaves.
 *
 * The whole sequence runs twice from the same state: first in a child that times each call and
 * notes the slowest ones, then here, where those and the first calls are executed one instruction
 * at a time and counted (stepped.h). Measures the most that was counted: a call that was never slow
 * is taken to be short, and the true most can only be more. Does not measure time,
 * nor the kernel's work. x86-64 only.
 */
#include "stepped.h"

#include <sys/mman.h>
#include <sys/wait.h>

enum { SLOWEST = 256, FIRST = 400 };

struct slow {
    uint64_t call;
    uint64_t ticks;
};

static struct slow *slowest; /* shared with the child; [0] is the least slow of them */
static void **slots;
static uint32_t live;
static uint64_t check;
static bool is_timed;
static uint64_t call, next; /* the number of this call, and the next of the slowest ones */
static uint64_t most_malloc, most_free, counted;

static inline uint64_t ticks(void)
{
#if defined(__x86_64__)
    unsigned lower, upper;
    __asm__ volatile("lfence; rdtsc" : "=a"(lower), "=d"(upper) : : "memory");
    return (uint64_t)upper << 32 | lower;
#else
    return 0;
#endif
}

static int by_call(const void *a, const void *b)
{
    const struct slow *first = a, *second = b;
    return first->call < second->call ? -1 : first->call > second->call;
}

/* Keeps the SLOWEST slowest, the least of them first: a heap of fixed size. */
static void note_slow(uint64_t spent)
{
    if (spent <= slowest[0].ticks)
        return;
    unsigned at = 0;
    for (unsigned child; (child = 2 * at + 1) < SLOWEST; at = child) {
        child += child + 1 < SLOWEST && slowest[child + 1].ticks < slowest[child].ticks;
        if (spent <= slowest[child].ticks)
            break;
        slowest[at] = slowest[child];
    }
    slowest[at] = (struct slow){call, spent};
}

static bool is_stepped(void)
{
    call++;
    while (next < SLOWEST && slowest[next].call < call)
        next++;
    return !is_timed && (call <= FIRST || (next < SLOWEST && slowest[next].call == call));
}

static void keep_count(uint64_t *most)
{
    *most = stepped_count() > *most ? stepped_count() : *most;
    counted++;
}

static void fill_slot(uint32_t slot, uint32_t bytes)
{
    void *block;
    if (is_stepped()) {
        block = stepped_malloc(call_malloc, bytes);
        keep_count(&most_malloc);
    } else {
        uint64_t before = is_timed ? ticks() : 0;
        block = call_malloc(bytes);
        if (is_timed)
            note_slow(ticks() - before);
    }
    if (block == NULL)
        fail("malloc(%u) returned NULL", bytes);
    *(volatile unsigned char *)block = (unsigned char)call;
    slots[slot] = block;
    check += call & 0xff;
}

static void empty_slot(uint32_t slot)
{
    check += *(volatile unsigned char *)slots[slot]; /* as it was written, or two blocks overlap */
    if (is_stepped()) {
        stepped_free(slots[slot]);
        keep_count(&most_free);
    } else {
        uint64_t before = is_timed ? ticks() : 0;
        call_free(slots[slot]);
        if (is_timed)
            note_slow(ticks() - before);
    }
}

static void run_part(uint64_t *random, uint64_t low, uint64_t high, uint64_t operations)
{
    uint32_t sizes = (uint32_t)(high - low + 1);
    for (uint32_t slot = 0; slot < live; slot++)
        fill_slot(slot, (uint32_t)low + random_below(random, sizes));
    for (uint64_t i = 0; i < operations; i++) {
        uint32_t slot = random_below(random, live);
        empty_slot(slot);
        fill_slot(slot, (uint32_t)low + random_below(random, sizes));
    }
    for (uint32_t slot = 0; slot < live; slot++)
        empty_slot(slot);
}

int main(int argc, char **argv)
{
    uint64_t seed = argument(argc, argv, 1, "seed");
    live = (uint32_t)argument(argc, argv, 2, "live");
    uint64_t low = argument(argc, argv, 3, "low"), high = argument(argc, argv, 4, "high");
    uint64_t operations = argument(argc, argv, 5, "operations");
    uint64_t then = argument(argc, argv, 6, "then");
    if (low < 16 || high < low || high > UINT32_MAX || then > UINT32_MAX)
        fail("blocks of at least 16 bytes, and no more than 32 bits");
    size_t table = live * sizeof *slots + SLOWEST * sizeof *slowest;
    char *memory = mmap(NULL, table, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        fail("no memory for the slots");
    slowest = (struct slow *)(void *)memory;
    slots = (void **)(void *)(slowest + SLOWEST);
    call_free(call_malloc(low)); /* what makes the heap ready is not the question */
    pid_t child = fork();
    is_timed = child == 0;
    if (child != 0) {
        int status;
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
            fail("the timed pass failed");
        qsort(slowest, SLOWEST, sizeof *slowest, by_call);
        stepped_begin();
    }
    uint64_t random = random_stream(seed, 0);
    start_clock();
    run_part(&random, low, high, operations);
    if (then != 0)
        run_part(&random, then, then, operations);
    stop_clock();
    if (is_timed)
        _exit(0);
    result_number("most_instructions", (double)(most_malloc > most_free ? most_malloc : most_free));
    result_number("most_instructions_malloc", (double)most_malloc);
    result_number("most_instructions_free", (double)most_free);
    result_number("calls_counted", (double)counted);
    return result_print(check);
}
