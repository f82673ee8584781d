/*
 * most SEED LIVE LOW HIGH OPERATIONS: the most instructions of any single call. Keeps LIVE blocks
 * of LOW to HIGH bytes; an operation frees a random one and allocates another.
 *
 * The whole sequence runs twice from the same state: first in a child that times each call and
 * notes the slowest ones, then here, where those and the first calls are executed one instruction
 * at a time and counted (the processor's trap flag). So what is printed is the most that was
 * counted: a call that was never slow is taken to be short, and the true most can only be more. The
 * count is that of the call and its return, the kernel's not included. x86-64 only. Does not
 * measure time.
 */
#include "workload.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { SLOWEST = 128, FIRST = 200 };

struct slow {
    uint64_t call;
    uint64_t ticks;
};

static struct slow *slowest; /* shared with the child; [0] is the least slow of them */
static void **slots;
static uint32_t *bytes_of;
static uint32_t live;
static uint64_t low, high;
static uint64_t check;
static volatile uint64_t steps;

static uint64_t most[2], empty_steps;
static uint64_t counted;

#if defined(__x86_64__)
static inline uint64_t ticks(void)
{
    unsigned lower, upper;
    __asm__ volatile("lfence; rdtsc" : "=a"(lower), "=d"(upper) : : "memory");
    return (uint64_t)upper << 32 | lower;
}

static inline void trap_on(void)
{
    __asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
}

static inline void trap_off(void)
{
    __asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc");
}
#else
static inline uint64_t ticks(void)
{
    fail("counting instructions needs x86-64");
    return 0;
}

static inline void trap_on(void) {}

static inline void trap_off(void) {}
#endif

static void on_step(int number)
{
    (void)number;
    steps++;
}

static void *(*volatile call_malloc)(size_t) = malloc;
static void (*volatile call_free)(void *) = free;

static __attribute__((noinline)) void *empty_malloc(size_t bytes)
{
    __asm__ volatile("" : : "r"(bytes));
    return NULL;
}

static void *(*volatile call_empty)(size_t) = empty_malloc;

static __attribute__((noinline)) void *stepped_malloc(void *(*function)(size_t), size_t bytes)
{
    steps = 0;
    trap_on();
    void *block = function(bytes);
    trap_off();
    return block;
}

static __attribute__((noinline)) void stepped_free(void *block)
{
    steps = 0;
    trap_on();
    call_free(block);
    trap_off();
}

static void keep_count(unsigned kind)
{
    uint64_t count = steps > empty_steps ? steps - empty_steps : 0;
    most[kind] = count > most[kind] ? count : most[kind];
    counted++;
}

static int by_call(const void *a, const void *b)
{
    const struct slow *first = a, *second = b;
    return first->call < second->call ? -1 : first->call > second->call;
}

/* Keeps the SLOWEST slowest, the least of them first: a heap of fixed size. */
static void note_slow(uint64_t call, uint64_t spent)
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

static void put_new(uint32_t slot, void *block, uint64_t operation)
{
    if (block == NULL)
        fail("malloc(%u) returned NULL", bytes_of[slot]);
    *(volatile unsigned char *)block = (unsigned char)operation;
    slots[slot] = block;
    check += operation & 0xff;
}

static void run(uint64_t seed, uint64_t operations, bool is_timed)
{
    uint64_t random = random_stream(seed, 0), next = 0;
    for (uint64_t i = 0; i < operations; i++) {
        uint32_t slot = random_below(&random, live);
        uint32_t bytes = (uint32_t)(low + random_below(&random, (uint32_t)(high - low + 1)));
        for (unsigned kind = 0; kind < 2; kind++) {
            uint64_t call = 2 * i + kind;
            while (next < SLOWEST && slowest[next].call < call)
                next++;
            bool is_stepped = !is_timed &&
                              (i < FIRST || (next < SLOWEST && slowest[next].call == call));
            uint64_t before = is_timed ? ticks() : 0;
            void *block = slots[slot];
            if (kind == 0 && is_stepped)
                stepped_free(block);
            else if (kind == 0)
                call_free(block);
            else
                block = is_stepped ? stepped_malloc(call_malloc, bytes) : call_malloc(bytes);
            if (is_timed)
                note_slow(call, ticks() - before);
            if (is_stepped)
                keep_count(kind);
            if (kind == 1) {
                bytes_of[slot] = bytes;
                put_new(slot, block, i);
            }
        }
    }
}

int main(int argc, char **argv)
{
    uint64_t seed = argument(argc, argv, 1, "seed");
    live = (uint32_t)argument(argc, argv, 2, "live");
    low = argument(argc, argv, 3, "low");
    high = argument(argc, argv, 4, "high");
    uint64_t operations = argument(argc, argv, 5, "operations");
    if (low < 16 || high < low || high > UINT32_MAX)
        fail("blocks of at least 16 bytes, and no more than 32 bits");
    size_t table = live * (sizeof *slots + sizeof *bytes_of) + SLOWEST * sizeof *slowest;
    char *memory = mmap(NULL, table, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        fail("no memory for the slots");
    slowest = (struct slow *)(void *)memory;
    slots = (void **)(void *)(slowest + SLOWEST);
    bytes_of = (uint32_t *)(void *)(slots + live);
    for (uint32_t slot = 0; slot < live; slot++) {
        bytes_of[slot] = (uint32_t)low;
        slots[slot] = allocate(low, 0);
    }
    void **kept = mmap(NULL, live * sizeof *kept, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (kept == MAP_FAILED)
        fail("no memory for the slots");
    memcpy(kept, slots, live * sizeof *kept);
    pid_t child = fork();
    if (child == 0) {
        run(seed, operations, true);
        _exit(0);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        fail("the timed pass failed");
    memcpy(slots, kept, live * sizeof *kept);
    qsort(slowest, SLOWEST, sizeof *slowest, by_call);
    struct sigaction action = {.sa_handler = on_step};
    sigaction(SIGTRAP, &action, NULL);
    stepped_malloc(call_empty, low);
    empty_steps = steps - 1; /* an empty function is its return */
    start_clock();
    run(seed, operations, false);
    stop_clock();
    for (uint32_t slot = 0; slot < live; slot++)
        free(slots[slot]);
    result_number("most_instructions", (double)(most[0] > most[1] ? most[0] : most[1]));
    result_number("most_instructions_malloc", (double)most[1]);
    result_number("most_instructions_free", (double)most[0]);
    result_number("calls_counted", (double)counted);
    return result_print(check);
}
