/*
 * workloads.c: what the cores do, and what came of it as JSON.
 *
 *   contention WORKLOAD CORES OPERATIONS TRANSFER_NS [SITES [CHIPLET [SHARDS]]]
 *
 * Every core does OPERATIONS to warm up, then as many for each are counted. A call of malloc or of
 * free is one operation. After a malloc the program writes the block's first byte. It does nothing
 * else: how blocks get from core to core costs nothing here, and a core waits only where its
 * neighbour has too much.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "core/shard.h"
#include "kernel.h"
#include "machine.h"
#include "names.h"

enum {
    SLOTS = 1000,
    INBOX = 256,
    BATCH = 120,
    BATCHES_WAITING = 16,
    LIVE = 400,
    REMOTE_PERCENT = 90,
    GROUPS_MAX = 4096,
    LINES_SHOWN = 12,
};

/* Blocks that others gave to a core to free. */
struct inbox {
    void *blocks[BATCH * BATCHES_WAITING];
    size_t count;
};

struct program {
    uint64_t operations;
    uint64_t random_state;
    struct inbox inbox;
    void *blocks[SLOTS];
    size_t bytes[SLOTS];
};

static struct program programs[CORES_MOST];
static unsigned core_count, site_count;
static uint64_t operations, operations_each, operations_all, started_ns, ended_ns;
static unsigned cores_warm;         /* did operations_each */
static bool is_even;                /* all cores do about as many */
static struct kernel_counts before; /* the count began */

static uint64_t below(unsigned core, uint64_t limit)
{
    return kernel_random(&programs[core].random_state) % limit;
}

static void count_operation(unsigned core)
{
    operations++;
    cores_warm += ++programs[core].operations == operations_each;
    if (operations_all == 0 && operations >= operations_each * core_count &&
        (cores_warm == core_count || !is_even || operations >= 8 * operations_each * core_count)) {
        started_ns = machine_count_anew();
        before = kernel_counts();
        operations_all = operations + operations_each * core_count;
    }
    if (operations == operations_all) {
        ended_ns = machine_clock();
        machine_end();
    }
    machine_pass();
}

static void *allocate(unsigned core, size_t bytes)
{
    enum { SITE = 0x400, SITE_STEP = 0x40 };
    uintptr_t site = SITE + SITE_STEP * (site_count > 1 ? below(core, site_count) : 0);
    void *block = call_malloc(bytes, (const void *)site);
    if (block == NULL)
        abort();
    machine_access(block, 1, ACCESS_STORE);
    count_operation(core);
    return block;
}

static void release(unsigned core, void *block)
{
    call_free(block);
    count_operation(core);
}

static size_t random_bytes(unsigned core, size_t most)
{
    enum { LEAST = 16 };
    return LEAST + below(core, most - LEAST + 1);
}

static void fill(unsigned core, size_t most)
{
    struct program *program = &programs[core];
    for (size_t i = 0; i < SLOTS; i++) {
        program->bytes[i] = random_bytes(core, most);
        program->blocks[i] = allocate(core, program->bytes[i]);
    }
}

/* Replaces random blocks, by blocks of the same size or of another. */
static void replace(unsigned core, size_t most, bool is_same_size)
{
    struct program *program = &programs[core];
    for (fill(core, most);;) {
        size_t at = below(core, SLOTS);
        if (!is_same_size)
            program->bytes[at] = random_bytes(core, most);
        release(core, program->blocks[at]);
        program->blocks[at] = allocate(core, program->bytes[at]);
    }
}

static void run_same(unsigned core)
{
    replace(core, 512, true);
}

static void run_private_512(unsigned core)
{
    replace(core, 512, false);
}

static void run_private_2048(unsigned core)
{
    replace(core, 2048, false);
}

static bool inbox_add(struct inbox *inbox, void *block)
{
    if (inbox->count == INBOX)
        return false;
    inbox->blocks[inbox->count++] = block;
    return true;
}

/* Frees a few, so that nobody only frees and makes the core behind an allocator. */
static void inbox_free(unsigned core, struct inbox *inbox, unsigned at_once)
{
    for (unsigned i = 0; i < at_once && inbox->count > 0; i++)
        release(core, inbox->blocks[--inbox->count]);
}

/* As replace, but most blocks are freed by the next core. */
static void run_remote(unsigned core)
{
    struct inbox *own = &programs[core].inbox;
    struct inbox *next = &programs[(core + 1) % core_count].inbox;
    for (fill(core, 512);;) {
        size_t at = below(core, SLOTS);
        void *old = programs[core].blocks[at];
        programs[core].blocks[at] = allocate(core, random_bytes(core, 512));
        if (below(core, 100) >= REMOTE_PERCENT) {
            release(core, old);
            continue;
        }
        while (!inbox_add(next, old)) { /* a ring of full ones must not stand still */
            inbox_free(core, own, 1);
            machine_pause();
            machine_pass();
        }
        inbox_free(core, own, 2);
    }
}

static void batch_allocate(unsigned core, struct inbox *to)
{
    void *blocks[BATCH];
    for (size_t i = 0; i < BATCH; i++)
        blocks[i] = allocate(core, random_bytes(core, 512));
    memcpy(to->blocks + to->count, blocks, sizeof blocks);
    to->count += BATCH;
    machine_wake(to, 1, 0);
}

static void batch_free(unsigned core, struct inbox *from)
{
    void *blocks[BATCH];
    from->count -= BATCH;
    memcpy(blocks, from->blocks + from->count, sizeof blocks);
    machine_wake(&from->count, 1, 0);
    for (size_t i = 0; i < BATCH; i++)
        release(core, blocks[i]);
}

/* Every core allocates a batch for the next one, and frees one that it was given. */
static void run_handover(unsigned core)
{
    struct inbox *own = &programs[core].inbox;
    struct inbox *next = &programs[(core + 1) % core_count].inbox;
    for (;;) {
        if (next->count + BATCH < sizeof next->blocks / sizeof *next->blocks)
            batch_allocate(core, next);
        if (own->count > 0)
            batch_free(core, own);
        else
            machine_pause(), machine_pass();
    }
}

/* The first half of the cores allocates, the second frees. */
static void run_one_way(unsigned core)
{
    unsigned half = core_count / 2;
    struct inbox *inbox = &programs[core % half].inbox;
    for (;;) {
        if (core < half) {
            while (inbox->count + 2 * BATCH > sizeof inbox->blocks / sizeof *inbox->blocks)
                machine_sleep(&inbox->count);
            batch_allocate(core, inbox);
        } else {
            while (inbox->count == 0)
                machine_sleep(inbox);
            batch_free(core, inbox);
        }
    }
}

/* The first core allocates, all others free. */
static void run_producer(unsigned core)
{
    struct inbox *own = &programs[core].inbox;
    for (unsigned to = 1;; to = to + 1 == core_count ? 1 : to + 1) {
        if (core == 0) {
            struct inbox *inbox = &programs[to].inbox;
            while (inbox->count == INBOX)
                machine_sleep(&inbox->count);
            inbox_add(inbox, allocate(core, random_bytes(core, 512)));
            machine_wake(inbox, 1, 0);
        } else {
            while (own->count == 0)
                machine_sleep(own);
            void *block = own->blocks[--own->count];
            machine_wake(&own->count, 1, 0);
            release(core, block);
        }
    }
}

static size_t size_of_fifteen(unsigned core)
{
    static const uint16_t sizes[15] = {16,  32,  48,  64,   96,   128,  192, 256,
                                       384, 512, 768, 1024, 2048, 4096, 8192};
    return sizes[below(core, 15)];
}

static void churn(unsigned core, size_t live, size_t replacements)
{
    struct program *program = &programs[core];
    for (size_t i = 0; i < replacements; i++) {
        size_t at = below(core, live);
        release(core, program->blocks[at]);
        program->blocks[at] = allocate(core, size_of_fifteen(core));
    }
}

static size_t shrink(unsigned core, size_t live, size_t keep)
{
    struct program *program = &programs[core];
    while (live > keep) {
        size_t at = below(core, live);
        release(core, program->blocks[at]);
        program->blocks[at] = program->blocks[--live];
    }
    return live;
}

/* Grow, churn, shrink, churn, free all, again and again. */
static void run_churn(unsigned core)
{
    for (;;) {
        size_t live = 0;
        while (live < LIVE)
            programs[core].blocks[live++] = allocate(core, size_of_fifteen(core));
        churn(core, live, LIVE * 2);
        live = shrink(core, live, LIVE / 20);
        churn(core, live, LIVE / 10);
        shrink(core, live, 0);
    }
}

/* Nothing but one word that all cores add to: what is to come out is known. */
static void run_control(unsigned core)
{
    for (;;) {
        call_control();
        count_operation(core);
    }
}

static const struct workload {
    const char *name;
    void (*run)(unsigned core);
} workloads[] = {
    {"same", run_same},
    {"private-512", run_private_512},
    {"private-2048", run_private_2048},
    {"remote", run_remote},
    {"handover", run_handover},
    {"one-way", run_one_way},
    {"producer", run_producer},
    {"churn", run_churn},
    {"control", run_control},
};

/* Sums over all words of a name. */
static struct group {
    char name[NAME_MAX_BYTES];
    struct line_counts sum;
} groups[GROUPS_MAX];
static size_t group_count;

static struct line_counts worst[LINES_SHOWN];
static struct line_counts wanted[LINES_SHOWN]; /* of each, the word that moved it most */
static uint64_t moved_lines, block_moves, block_moves_far, block_copies;

static void add_word(const struct line_counts *word)
{
    char name[NAME_MAX_BYTES];
    name_write(name, word->address, false);
    size_t at = 0;
    while (at < group_count && strcmp(groups[at].name, name) != 0)
        at++;
    if (at == GROUPS_MAX)
        abort();
    group_count += at == group_count;
    struct group *group = &groups[at];
    memcpy(group->name, name, sizeof group->name);
    group->sum.moves += word->moves;
    group->sum.copies += word->copies;
    group->sum.atomics += word->atomics;
    if (word->held_ns > group->sum.held_ns)
        group->sum.held_ns = word->held_ns;
}

static bool is_worse(const struct line_counts *a, const struct line_counts *b)
{
    return a->moves != b->moves ? a->moves > b->moves : a->address < b->address;
}

static void add_line(const struct line_counts *line)
{
    char name[NAME_MAX_BYTES];
    name_write(name, line->address, true);
    if (strcmp(name, "blocks") == 0) {
        block_moves += line->moves;
        block_moves_far += line->moves_far;
        block_copies += line->copies;
        return;
    }
    moved_lines += line->moves > 0;
    struct line_counts add = *line;
    for (size_t i = 0; i < LINES_SHOWN; i++) {
        if (is_worse(&add, &worst[i])) {
            struct line_counts pushed = worst[i];
            worst[i] = add;
            add = pushed;
        }
    }
}

static void add_wanted(const struct line_counts *word)
{
    for (size_t i = 0; i < LINES_SHOWN; i++)
        if (word->address / LINE_BYTES == worst[i].address / LINE_BYTES &&
            (wanted[i].address == 0 || is_worse(word, &wanted[i])))
            wanted[i] = *word;
}

static void write_counts(const char *name, const struct line_counts *counts, const char *end)
{
    printf("{\"name\": \"%s\", \"moves\": %" PRIu64 ", \"copies\": %" PRIu64
           ", \"atomics\": %" PRIu64 ", \"held_ns\": %" PRIu64 "}%s",
           name, counts->moves, counts->copies, counts->atomics, counts->held_ns, end);
}

static void write_report(const char *workload)
{
    const struct counts *all = &machine_counts;
    struct kernel_counts kernel = kernel_counts();
    machine_each_word(add_word);
    machine_each_line(add_line);
    machine_each_word(add_wanted);
    printf("{\"workload\": \"%s\", \"cores\": %u, \"operations\": %" PRIu64 ", \"ns\": %" PRIu64
           ", \"transfer_ns\": %" PRIu64 ", \"loads\": %" PRIu64 ", \"stores\": %" PRIu64
           ", \"atomics\": %" PRIu64 ", \"atomics_moved\": %" PRIu64 ", \"moves\": %" PRIu64
           ", \"copies\": %" PRIu64 ", \"fetches\": %" PRIu64 ", \"block_moves\": %" PRIu64
           ", \"block_copies\": %" PRIu64 ", \"moves_far\": %" PRIu64
           ", \"block_moves_far\": %" PRIu64 ", \"shards\": %u, \"moved_lines\": %" PRIu64
           ", \"sleeps\": %" PRIu64 ", \"wakes\": %" PRIu64 ",\n \"words\": [\n  ",
           workload, core_count, operations_each * core_count, ended_ns - started_ns,
           cost_transfer_ns, all->loads, all->stores, all->atomics, all->atomics_moved, all->moves,
           all->copies, all->fetches, block_moves, block_copies, all->moves_far, block_moves_far,
           shard_count, moved_lines, kernel.sleeps - before.sleeps, kernel.wakes - before.wakes);
    for (size_t i = 0; i < group_count; i++)
        write_counts(groups[i].name, &groups[i].sum, i + 1 < group_count ? ",\n  " : "");
    printf("],\n \"lines\": [\n  ");
    for (size_t i = 0; i < LINES_SHOWN && worst[i].moves > 0; i++) {
        char name[NAME_MAX_BYTES];
        name_write(name, wanted[i].address, true);
        write_counts(name, &worst[i], i + 1 < LINES_SHOWN && worst[i + 1].moves > 0 ? ",\n  " : "");
    }
    printf("]}\n");
}

int main(int argc, char **argv)
{
    const struct workload *found = NULL;
    for (size_t i = 0; argc >= 5 && i < sizeof workloads / sizeof *workloads; i++)
        if (strcmp(workloads[i].name, argv[1]) == 0)
            found = &workloads[i];
    core_count = found == NULL ? 0 : (unsigned)atoi(argv[2]);
    if (core_count < 2 || core_count > CORES_MOST) {
        fprintf(
            stderr,
            "usage: contention WORKLOAD CORES OPERATIONS TRANSFER_NS [SITES [CHIPLET [SHARDS]]]\n");
        return 2;
    }
    operations_each = strtoull(argv[3], NULL, 10);
    is_even = found->run != run_producer;
    cost_transfer_ns = strtoull(argv[4], NULL, 10);
    site_count = argc > 5 ? (unsigned)atoi(argv[5]) : 1;
    for (unsigned core = 0; core < core_count; core++)
        programs[core].random_state = core;
    kernel_set_processors(core_count);
    unsigned chiplet = argc > 6 ? (unsigned)atoi(argv[6]) : 0;
    machine_set_chiplets(chiplet);
    kernel_set_chiplets(chiplet);
    kernel_set_shards(argc > 7 ? (unsigned)atoi(argv[7]) : 0);
    machine_run(core_count, found->run, kernel_on_switch);
    write_report(found->name);
    return 0;
}
