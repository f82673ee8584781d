/*
 * machine.c: cores that take turns, and the directory of lines.
 *
 * A core is a stack of its own; setjmp and longjmp change between them. The cores that can run are
 * in a heap by their clocks. Everything is the same in every run: nothing depends on real time or
 * on where the kernel puts memory.
 */
#define _GNU_SOURCE

#include "machine.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { STACK_BYTES = 256 * 1024, CORE_WORDS = CORES_MOST / 64, NOBODY = -1, AHEAD_NS = 1000 };

uint64_t cost_transfer_ns = 70;
struct counts machine_counts;

struct core {
    uint64_t clock;
    const void *channel; /* what it sleeps on, or NULL */
    jmp_buf at;
    bool is_started;
};

struct line {
    uintptr_t number;          /* 0: unused */
    uint64_t free_at;          /* when the transfer under way ends */
    uint64_t has[CORE_WORDS];  /* cores that may read it */
    uint64_t knew[CORE_WORDS]; /* cores that ever could */
    uint64_t moves, moves_far, copies, atomics;
    uint64_t held_ns, held_since;
    int16_t writer; /* the one core that may write it, or NOBODY */
};

struct table {
    struct line *lines;
    size_t size, used;
};

static struct core cores[CORES_MOST];
static unsigned core_count, current, chiplet_cores;
static unsigned waiting[CORES_MOST]; /* heap of cores that can run, the current one apart */
static unsigned waiting_count;
static char *stacks;
static jmp_buf after_run;
static bool is_running;
static void (*core_body)(unsigned core);
static void (*core_on_switch)(unsigned core);
static struct table directory, words;

static void fail(const char *reason)
{
    fprintf(stderr, "contention: %s\n", reason);
    exit(2);
}

static bool has_bit(const uint64_t *set, unsigned core)
{
    return (set[core / 64] >> core % 64 & 1) != 0;
}

static void set_bit(uint64_t *set, unsigned core)
{
    set[core / 64] |= (uint64_t)1 << core % 64;
}

static bool is_empty(const uint64_t *set)
{
    uint64_t all = 0;
    for (unsigned i = 0; i < CORE_WORDS; i++)
        all |= set[i];
    return all == 0;
}

void machine_set_chiplets(unsigned count)
{
    chiplet_cores = count;
}

/* Whether a core of another chiplet than the current one's has the line. */
static bool is_far(const struct line *line)
{
    if (chiplet_cores == 0)
        return false;
    for (unsigned core = 0; core < core_count; core++)
        if (core / chiplet_cores != current / chiplet_cores && has_bit(line->has, core))
            return true;
    return false;
}

static struct line *table_find(struct table *table, uintptr_t number);

static void table_grow(struct table *table)
{
    struct table old = *table;
    table->size = old.size == 0 ? 1 << 14 : old.size * 2;
    table->used = 0;
    table->lines = calloc(table->size, sizeof *table->lines);
    if (table->lines == NULL)
        fail("out of memory");
    for (size_t i = 0; i < old.size; i++)
        if (old.lines[i].number != 0)
            *table_find(table, old.lines[i].number) = old.lines[i];
    free(old.lines);
}

/* The entry of a line or word; a new one when it was never touched. */
static struct line *table_find(struct table *table, uintptr_t number)
{
    if (table->used * 2 >= table->size)
        table_grow(table);
    size_t at = (size_t)(number * 0x9E3779B97F4A7C15u >> 20) & (table->size - 1);
    while (table->lines[at].number != 0 && table->lines[at].number != number)
        at = (at + 1) & (table->size - 1);
    if (table->lines[at].number == 0) {
        table->lines[at].number = number;
        table->lines[at].writer = NOBODY;
        table->used++;
    }
    return &table->lines[at];
}

static bool is_before(unsigned a, unsigned b)
{
    return cores[a].clock != cores[b].clock ? cores[a].clock < cores[b].clock : a < b;
}

static void waiting_add(unsigned core)
{
    unsigned at = waiting_count++;
    for (; at > 0 && is_before(core, waiting[(at - 1) / 2]); at = (at - 1) / 2)
        waiting[at] = waiting[(at - 1) / 2];
    waiting[at] = core;
}

static unsigned waiting_take(void)
{
    if (waiting_count == 0)
        fail("every core sleeps");
    unsigned first = waiting[0], last = waiting[--waiting_count];
    unsigned at = 0;
    for (unsigned child = 1; child < waiting_count; child = 2 * at + 1) {
        if (child + 1 < waiting_count && is_before(waiting[child + 1], waiting[child]))
            child++;
        if (is_before(last, waiting[child]))
            break;
        waiting[at] = waiting[child];
        at = child;
    }
    waiting[at] = last;
    return first;
}

static void begin(void)
{
    core_body(current);
    fail("a core's body returned");
}

static void start_core(unsigned core)
{
    ucontext_t context;
    getcontext(&context);
    context.uc_stack.ss_sp = stacks + (size_t)core * STACK_BYTES;
    context.uc_stack.ss_size = STACK_BYTES;
    context.uc_link = NULL;
    makecontext(&context, begin, 0);
    cores[core].is_started = true;
    setcontext(&context);
}

/* The core that is furthest behind goes on; the current one is in the heap, or asleep. */
static void switch_away(void)
{
    unsigned from = current;
    unsigned to = waiting_take();
    if (to == from)
        return;
    machine_counts.switches++;
    if (_setjmp(cores[from].at) != 0)
        return;
    current = to;
    core_on_switch(to);
    if (!cores[to].is_started)
        start_core(to);
    _longjmp(cores[to].at, 1);
}

/* Goes on once no other core is more than `ahead_ns` behind. */
static void let_others(uint64_t ahead_ns)
{
    while (waiting_count > 0 && cores[waiting[0]].clock + ahead_ns < cores[current].clock) {
        waiting_add(current);
        switch_away();
    }
}

unsigned machine_core(void)
{
    return current;
}

uint64_t machine_clock(void)
{
    return cores[current].clock;
}

void machine_spend(uint64_t ns)
{
    if (is_running)
        cores[current].clock += ns;
}

void machine_pass(void)
{
    let_others(0);
}

void machine_pause(void)
{
    machine_spend(COST_PAUSE_NS);
}

void machine_sleep(const void *channel)
{
    cores[current].channel = channel;
    switch_away();
}

void machine_wake(const void *channel, size_t count, uint64_t latency_ns)
{
    for (unsigned core = 0; core < core_count && count > 0; core++) {
        if (cores[core].channel != channel)
            continue;
        uint64_t woken_at = cores[current].clock + latency_ns;
        cores[core].channel = NULL;
        if (cores[core].clock < woken_at)
            cores[core].clock = woken_at;
        waiting_add(core);
        count--;
    }
}

static bool is_hit(const struct line *line, enum access access)
{
    return access == ACCESS_LOAD ? has_bit(line->has, current) : line->writer == (int)current;
}

/* Brings a line to the current core. Returns when it is there. */
static uint64_t fetch(struct line *line, struct line *word, enum access access)
{
    uint64_t now = cores[current].clock;
    bool is_others = line->writer != NOBODY && line->writer != (int)current;
    bool is_shared = line->writer == NOBODY && !is_empty(line->has);
    if (access == ACCESS_LOAD && !is_others) {
        bool is_lost = has_bit(line->knew, current); /* somebody changed it since */
        line->copies += is_lost;
        word->copies += is_lost;
        machine_counts.copies += is_lost;
        machine_counts.fetches += !is_lost;
        uint64_t start = line->free_at > now ? line->free_at : now;
        return is_shared ? start + cost_transfer_ns : start + COST_FETCH_NS;
    }
    if (access != ACCESS_LOAD && !is_others && !is_shared) {
        machine_counts.fetches++;
        return now + COST_FETCH_NS;
    }
    if (access != ACCESS_LOAD && is_shared) { /* alone with it: a store costs nothing more */
        uint64_t others[CORE_WORDS];
        memcpy(others, line->has, sizeof others);
        others[current / 64] &= ~((uint64_t)1 << current % 64);
        if (is_empty(others) && has_bit(line->has, current))
            return now;
    }
    uint64_t start = line->free_at > now ? line->free_at : now;
    line->free_at = start + cost_transfer_ns;
    bool is_from_far = is_far(line);
    line->moves++;
    line->moves_far += is_from_far;
    word->moves++;
    machine_counts.moves++;
    machine_counts.moves_far += is_from_far;
    machine_counts.atomics_moved += access == ACCESS_ATOMIC;
    return line->free_at;
}

static void take(struct line *line, enum access access)
{
    if (access != ACCESS_LOAD) {
        memset(line->has, 0, sizeof line->has);
        line->writer = (int16_t)current;
    } else if (line->writer != (int)current) {
        line->writer = NOBODY;
    }
    set_bit(line->has, current);
    set_bit(line->knew, current);
}

static void access_line(uintptr_t number, uintptr_t word_number, enum access access)
{
    machine_counts.loads += access == ACCESS_LOAD;
    machine_counts.stores += access == ACCESS_STORE;
    machine_counts.atomics += access == ACCESS_ATOMIC;
    let_others(AHEAD_NS);
    struct line *line = table_find(&directory, number);
    if (access != ACCESS_ATOMIC && is_hit(line, access)) {
        cores[current].clock += COST_HIT_NS;
        return;
    }
    let_others(0);
    line = table_find(&directory, number); /* others ran: the table may have grown */
    struct line *word = table_find(&words, word_number);
    if (!is_hit(line, access))
        cores[current].clock = fetch(line, word, access);
    take(line, access);
    line->atomics += access == ACCESS_ATOMIC;
    word->atomics += access == ACCESS_ATOMIC;
    cores[current].clock += access == ACCESS_ATOMIC ? COST_ATOMIC_NS : COST_HIT_NS;
}

static bool is_private(const char *address)
{
    const char *thread = __builtin_thread_pointer();
    enum { THREAD_LOCAL_BYTES = 16 * 1024 };
    return (address >= stacks && address < stacks + (size_t)CORES_MOST * STACK_BYTES) ||
           (address >= thread - THREAD_LOCAL_BYTES && address < thread + THREAD_LOCAL_BYTES);
}

void machine_access(const void *address, size_t bytes, enum access access)
{
    if (!is_running || is_private(address))
        return;
    uintptr_t from = (uintptr_t)address, end = from + bytes - 1;
    for (uintptr_t number = from / LINE_BYTES; number <= end / LINE_BYTES; number++) {
        uintptr_t first = number * LINE_BYTES > from ? number * LINE_BYTES : from;
        access_line(number, first / WORD_BYTES, access);
    }
}

void machine_lock_taken(const void *word)
{
    if (is_running)
        table_find(&words, (uintptr_t)word / WORD_BYTES)->held_since = cores[current].clock;
}

void machine_lock_freed(const void *address)
{
    if (!is_running)
        return;
    struct line *word = table_find(&words, (uintptr_t)address / WORD_BYTES);
    if (word->held_since != 0)
        word->held_ns += cores[current].clock - word->held_since;
    word->held_since = 0;
}

void machine_run(unsigned count, void (*body)(unsigned core), void (*on_switch)(unsigned core))
{
    stacks = mmap(NULL, (size_t)CORES_MOST * STACK_BYTES, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stacks == MAP_FAILED)
        fail("out of memory");
    core_count = count;
    core_body = body;
    core_on_switch = on_switch;
    for (unsigned core = 0; core < count; core++)
        cores[core].clock = core; /* not all in step */
    for (unsigned core = 1; core < count; core++)
        waiting_add(core);
    is_running = true;
    if (_setjmp(after_run) != 0)
        return;
    current = 0;
    on_switch(0);
    start_core(0);
}

void machine_end(void)
{
    is_running = false;
    _longjmp(after_run, 1);
}

static void forget(struct table *table)
{
    for (size_t i = 0; i < table->size; i++) {
        struct line *line = &table->lines[i];
        line->moves = line->moves_far = line->copies = line->atomics = line->held_ns =
            line->free_at = 0;
        line->held_since = 0;
    }
}

uint64_t machine_count_anew(void)
{
    uint64_t latest = 0;
    for (unsigned core = 0; core < core_count; core++)
        latest = cores[core].clock > latest ? cores[core].clock : latest;
    for (unsigned core = 0; core < core_count; core++)
        cores[core].clock = latest;
    waiting_count = 0;
    for (unsigned core = 0; core < core_count; core++)
        if (core != current && cores[core].channel == NULL)
            waiting_add(core);
    forget(&directory);
    forget(&words);
    memset(&machine_counts, 0, sizeof machine_counts);
    return latest;
}

static void each(const struct table *table, size_t unit, void (*visit)(const struct line_counts *))
{
    for (size_t i = 0; i < table->size; i++) {
        const struct line *line = &table->lines[i];
        struct line_counts counts = {line->number * unit, line->moves,   line->moves_far,
                                     line->copies,        line->atomics, line->held_ns};
        if (line->number != 0 && line->moves + line->copies + line->atomics + line->held_ns > 0)
            visit(&counts);
    }
}

void machine_each_line(void (*visit)(const struct line_counts *))
{
    each(&directory, LINE_BYTES, visit);
}

void machine_each_word(void (*visit)(const struct line_counts *))
{
    each(&words, WORD_BYTES, visit);
}
