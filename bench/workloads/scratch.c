/*
 * scratch SEED WRITERS BYTES PHASES WRITES: in each phase one thread allocates 32 blocks for each
 * of WRITERS threads, taking turns, and hands them over; the writers free what they were given,
 * allocate as many, and add one to a word in each of their blocks, WRITES times; then they free.
 *
 * Measures false sharing: an allocator that gives two threads blocks of one cache line makes them
 * wait for each other's writes. `shared_lines` counts lines of 64 bytes with blocks of more than
 * one writer, a phase. Each writer has a core of its own. Each word must count WRITES at the end.
 * Times the writing much more than the allocator's own code. Does not measure sharing that the
 * program itself causes.
 */
#include "workload.h"

#include <sched.h>

enum { BLOCKS = 32, WRITERS_MAX = 16, LINE = 64 };

static pthread_barrier_t given, written, counted;
static volatile uint64_t *gifts[WRITERS_MAX][BLOCKS], *mine[WRITERS_MAX][BLOCKS];
static struct {
    _Alignas(128) uint64_t total;
} sums[WRITERS_MAX];
static unsigned writers;
static size_t bytes;
static uint64_t phases, writes, shared_lines;

/* Counts a writer's line once, when a later writer has it too. */
static uint64_t count_shared(void)
{
    uint64_t shared = 0;
    for (unsigned w = 0; w < writers; w++)
        for (unsigned i = 0; i < BLOCKS; i++) {
            uintptr_t line = (uintptr_t)mine[w][i] / LINE;
            bool is_known = false, is_shared = false;
            for (unsigned j = 0; j < i; j++)
                is_known |= (uintptr_t)mine[w][j] / LINE == line;
            for (unsigned other = w + 1; other < writers; other++)
                for (unsigned j = 0; j < BLOCKS; j++)
                    is_shared |= (uintptr_t)mine[other][j] / LINE == line;
            shared += is_shared && !is_known;
        }
    return shared;
}

static void give(void)
{
    for (uint64_t phase = 0; phase < phases; phase++) {
        for (unsigned i = 0; i < BLOCKS; i++)
            for (unsigned w = 0; w < writers; w++)
                gifts[w][i] = allocate(bytes, 1);
        pthread_barrier_wait(&given);
        pthread_barrier_wait(&written);
        shared_lines += count_shared();
        pthread_barrier_wait(&counted);
    }
}

/* A core for each writer, as far as there are cores: writers that take turns share nothing. */
static void pin(unsigned writer)
{
    cpu_set_t allowed, mine_only;
    sched_getaffinity(0, sizeof allowed, &allowed);
    unsigned skip = writer % (unsigned)CPU_COUNT(&allowed);
    for (int core = 0; core < CPU_SETSIZE; core++) {
        if (!CPU_ISSET(core, &allowed) || skip-- > 0)
            continue;
        CPU_ZERO(&mine_only);
        CPU_SET(core, &mine_only);
        sched_setaffinity(0, sizeof mine_only, &mine_only);
        return;
    }
}

static void write_mine(unsigned writer)
{
    volatile uint64_t *blocks[BLOCKS];
    for (unsigned i = 0; i < BLOCKS; i++)
        free((void *)gifts[writer][i]);
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = allocate(bytes, 0);
        *blocks[i] = 0;
        mine[writer][i] = blocks[i];
    }
    for (uint64_t n = 0; n < writes; n++)
        for (unsigned i = 0; i < BLOCKS; i++)
            *blocks[i] += 1;
}

static void work(unsigned index)
{
    if (index == 0) {
        give();
        return;
    }
    unsigned writer = index - 1;
    pin(writer);
    for (uint64_t phase = 0; phase < phases; phase++) {
        pthread_barrier_wait(&given);
        write_mine(writer);
        pthread_barrier_wait(&written);
        pthread_barrier_wait(&counted);
        for (unsigned i = 0; i < BLOCKS; i++) {
            if (*mine[writer][i] != writes)
                fail("a word that was written %llu times says %llu", (unsigned long long)writes,
                     (unsigned long long)*mine[writer][i]);
            sums[writer].total += *mine[writer][i];
            free((void *)mine[writer][i]);
        }
    }
}

int main(int argc, char **argv)
{
    argument(argc, argv, 1, "seed");
    writers = (unsigned)argument(argc, argv, 2, "writers");
    bytes = argument(argc, argv, 3, "bytes");
    phases = argument(argc, argv, 4, "phases");
    writes = argument(argc, argv, 5, "writes");
    if (writers < 2 || writers > WRITERS_MAX || bytes < sizeof(uint64_t))
        fail("2 to %d writers, blocks of at least 8 bytes", WRITERS_MAX);
    pthread_barrier_init(&given, NULL, writers + 1);
    pthread_barrier_init(&written, NULL, writers + 1);
    pthread_barrier_init(&counted, NULL, writers + 1);
    run_threads(writers + 1, work);
    uint64_t check = 0;
    for (unsigned w = 0; w < writers; w++)
        check += sums[w].total;
    result_number("shared_lines", (double)shared_lines / (double)phases);
    return result_print(check);
}
