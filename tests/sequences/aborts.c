/*
 * aborts.c: the sequences' instructions, and their aborts at each access to memory, without a
 * kernel that knows of sequences.
 *
 * The area is made by hand. An access that is to be interrupted finds its page protected; the
 * signal's handler then does what the kernel does: it reads the descriptor that the thread named,
 * and moves the program to the abort address. So all of this runs on an emulator, too. The mistakes
 * it was seen to find are in control_test.py, which has it find them each time.
 */
#define _GNU_SOURCE

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "os/rseq.h"

enum { CORE = 3, CORES = 5, BLOCKS = 24, ENTRY = 64, STEPS = 200000 };

#if defined(__x86_64__)
enum { SIGNATURE = 0x53053053 };
#define PC(context) ((void *)&(context)->uc_mcontext.gregs[REG_RIP])
#else
enum { SIGNATURE = (int)0xd428bc00 };
#define PC(context) ((void *)&(context)->uc_mcontext.pc)
#endif

struct descriptor {
    uint32_t version, flags;
    uintptr_t start, length, abort;
};

/* Offset ENTRY from base: a pointer that the sequences leave alone, and the two words. */
struct entry {
    void *first;
    uint32_t top, limit;
};

/* One page for each thing that an access can be stopped at. The area lies across two. */
enum { PAGE_AREA, PAGE_CORE, PAGE_SLOTS, PAGE_ENTRY, PAGE_ARRAY, PAGES };

static size_t page_bytes;
static char *pages;
static struct rseq_area *area;
static struct rseq_slot *slots;
static char *base;
static struct entry *entry;
static void **array; /* array[0] is the NULL below the oldest */
static uint32_t bottom;
static volatile sig_atomic_t abort_count;

#define CHECK(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                                        \
            fprintf(stderr, __VA_ARGS__);                                                          \
            fputc('\n', stderr);                                                                   \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static char *page(unsigned number)
{
    return pages + number * page_bytes;
}

static void protect(unsigned number, int rights)
{
    CHECK(mprotect(page(number), page_bytes, rights) == 0, "mprotect");
}

static void as_the_kernel_does(int number, siginfo_t *info, void *context)
{
    (void)info;
    const struct descriptor *named = (const struct descriptor *)area->sequence;
    uintptr_t *pc = PC((ucontext_t *)context);
    uint32_t signature = 0;
    if (named != NULL)
        memcpy(&signature, (const char *)named->abort - sizeof signature, sizeof signature);
    if (named == NULL || named->version != 0 || named->flags != 0 ||
        *pc - named->start >= named->length || named->abort - named->start < named->length ||
        signature != (uint32_t)SIGNATURE) {
        signal(number, SIG_DFL); /* the access is no part of a sequence: it stops the program */
        return;
    }
    for (unsigned i = PAGE_CORE; i < PAGES; i++)
        mprotect(page(i), page_bytes, PROT_READ | PROT_WRITE);
    area->sequence = 0;
    *pc = named->abort;
    abort_count = abort_count + 1;
}

static void set_up(void)
{
    page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    pages = mmap(NULL, PAGES * page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                 0);
    CHECK(pages != MAP_FAILED, "mmap");
    area = (struct rseq_area *)(void *)(page(PAGE_CORE) - 16);
    slots = (struct rseq_slot *)(void *)page(PAGE_SLOTS);
    entry = (struct entry *)(void *)page(PAGE_ENTRY);
    base = page(PAGE_ENTRY) - ENTRY;
    array = (void **)(void *)page(PAGE_ARRAY);
    bottom = (uint32_t)(page(PAGE_ARRAY) - base);
    area->cpu_id = area->cpu_id_start = 1;
    area->core = CORE;
    atomic_store(&slots[CORE].base, base);
    entry->first = &array;
    entry->top = bottom;
    entry->limit = bottom + BLOCKS * sizeof *array;

    struct sigaction action = {.sa_sigaction = as_the_kernel_does, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
}

/* As many operations as STEPS, in a random order, against a stack that is a plain array. */
static void compare_with_a_stack(void)
{
    static char blocks[BLOCKS + 1];
    void *stack[BLOCKS];
    size_t count = 0;
    unsigned random = 1;
    for (unsigned step = 0; step < STEPS; step++) {
        random = random * 1664525 + 1013904223;
        bool is_mostly_push = step / 97 % 2 == 0;
        if ((random >> 24) % 8 < (is_mostly_push ? 6 : 2)) {
            void *block = &blocks[(random >> 8) % (BLOCKS + 1)];
            bool is_done = rseq_push(area, slots, ENTRY, block);
            CHECK(is_done == (count < BLOCKS), "step %u: pushed %d onto %zu", step, is_done, count);
            if (is_done)
                stack[count++] = block;
        } else {
            void *block = rseq_pop(area, slots, ENTRY);
            void *expected = count > 0 ? stack[--count] : NULL;
            CHECK(block == expected, "step %u: popped %p, not %p", step, block, expected);
        }
        CHECK(entry->top == bottom + count * sizeof *array, "step %u: top", step);
    }
    CHECK(abort_count == 0 && entry->first == &array && array[0] == NULL, "something else changed");
    while (rseq_pop(area, slots, ENTRY) != NULL)
        continue;
}

static void swap_when_it_is_there(void)
{
    char other;
    CHECK(rseq_swap(area, slots, &other, base) == -1, "swapped what was not there");
    CHECK(rseq_swap(area, slots, base, &other) == CORE, "not swapped");
    CHECK(atomic_load(&slots[CORE].base) == &other, "swapped for something else");
    CHECK(rseq_swap(area, slots, &other, base) == CORE, "not swapped back");
    for (unsigned i = 0; i < CORES; i++)
        CHECK(i == CORE || atomic_load(&slots[i].base) == NULL, "another core's slot");
}

/* All that a sequence may change, but for what it names in the area. */
struct state {
    struct rseq_slot slots[CORES];
    struct entry entry;
    void *array[BLOCKS + 1];
};

static struct state state_now(size_t count)
{
    struct state state;
    memset(&state, 0, sizeof state);
    memcpy((void *)state.slots, (void *)slots, sizeof state.slots);
    state.entry = *entry;
    memcpy((void *)state.array, (void *)array, (count + 1) * sizeof *array);
    return state;
}

enum operation { POP, PUSH, SWAP, OPERATIONS };

static const struct {
    const char *name;
    unsigned page;
    int rights;
    bool is_met[OPERATIONS]; /* whether the operation makes such an access */
} accesses[] = {
    {"the load of the core", PAGE_CORE, PROT_NONE, {true, true, true}},
    {"the load of the slot", PAGE_SLOTS, PROT_NONE, {true, true, true}},
    {"the store to the slot", PAGE_SLOTS, PROT_READ, {false, false, true}},
    {"the load of the top", PAGE_ENTRY, PROT_NONE, {true, true, false}},
    {"the load or store of the block", PAGE_ARRAY, PROT_NONE, {true, true, false}},
    {"the store of the block alone", PAGE_ARRAY, PROT_READ, {false, true, false}},
    {"the store of the top", PAGE_ENTRY, PROT_READ, {true, true, false}},
};

/* Says whether it was done. */
static bool run(enum operation operation, void *block)
{
    switch (operation) {
    case POP: return rseq_pop(area, slots, ENTRY) != NULL;
    case PUSH: return rseq_push(area, slots, ENTRY, block);
    default: return rseq_swap(area, slots, base, block) >= 0;
    }
}

/* An abort at any access leaves everything as it was, and the next time it works. */
static void abort_at_each_access(void)
{
    char block;
    for (unsigned i = 0; i < sizeof accesses / sizeof *accesses; i++)
        for (enum operation operation = POP; operation < OPERATIONS; operation++) {
            for (unsigned count = 0; count < 2; count++)
                CHECK(rseq_push(area, slots, ENTRY, &block), "push");
            struct state before = state_now(2);
            int aborts_before = abort_count;
            protect(accesses[i].page, accesses[i].rights);
            bool is_done = run(operation, &block);
            bool is_aborted = abort_count == aborts_before + 1;
            protect(accesses[i].page, PROT_READ | PROT_WRITE);
            struct state after = state_now(2);
            CHECK(is_aborted == accesses[i].is_met[operation] && is_done == !is_aborted,
                  "operation %d at %s: aborted %d, done %d", operation, accesses[i].name,
                  is_aborted, is_done);
            bool is_same = memcmp(&before, &after, sizeof before) == 0;
            CHECK(is_same == is_aborted, "operation %d at %s: changed %d", operation,
                  accesses[i].name, !is_same);
            if (is_aborted)
                CHECK(run(operation, &block), "operation %d after an abort", operation);
            atomic_store(&slots[CORE].base, base);
            entry->top = bottom;
        }
}

int main(void)
{
    set_up();
    compare_with_a_stack();
    swap_when_it_is_there();
    abort_at_each_access();
    printf("%d operations, %d aborts\n", STEPS, (int)abort_count);
    return 0;
}
