/*
 * pipe SEED BLOCKS LEAST MOST DEPTH: one thread makes BLOCKS blocks of LEAST to MOST bytes, as
 * likely from one doubling as from another, and writes every byte; another reads a byte of each
 * page and frees them. Between a half of DEPTH and DEPTH wait between the two.
 *
 * Measures large blocks whose memory always moves one way, as frames of pictures or of messages do:
 * whether what one thread freed serves the other, and what is resident meanwhile (peak RSS; CPU
 * time and page faults beside it). Does not measure small blocks (asymmetric, handover).
 */
#include "written.h"

enum { DEPTH_MAX = 64 };

static struct slot ring[DEPTH_MAX];
static uint64_t blocks, given, taken, depth, seed;
static uint32_t least, most;
static uint64_t check;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void put(struct slot slot)
{
    pthread_mutex_lock(&lock);
    while (given - taken == depth)
        pthread_cond_wait(&changed, &lock);
    ring[given++ % depth] = slot;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
}

static struct slot take(void)
{
    pthread_mutex_lock(&lock);
    while (given - taken <= depth / 2 && given < blocks)
        pthread_cond_wait(&changed, &lock);
    struct slot slot = ring[taken++ % depth];
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
    return slot;
}

static void make(void)
{
    uint64_t random = random_stream(seed, 0);
    for (uint64_t i = 0; i < blocks; i++) {
        uint32_t bytes = draw_doubling(&random, least, most);
        struct slot slot = {malloc(bytes), bytes, (uint32_t)(next_random(&random) >> 32)};
        if (slot.block == NULL)
            fail("malloc(%u) returned NULL", bytes);
        memset(slot.block, (unsigned char)bytes, bytes);
        block_stamp(slot.block, bytes, slot.stamp);
        put(slot);
    }
}

static void drain(void)
{
    for (uint64_t i = 0; i < blocks; i++) {
        struct slot slot = take();
        check = check * 31 + block_check(slot.block, slot.bytes, slot.stamp);
        free(slot.block);
    }
}

static void work(unsigned index)
{
    if (index == 0)
        make();
    else
        drain();
}

int main(int argc, char **argv)
{
    seed = argument(argc, argv, 1, "seed");
    blocks = argument(argc, argv, 2, "blocks");
    least = (uint32_t)argument(argc, argv, 3, "least");
    most = (uint32_t)argument(argc, argv, 4, "most");
    depth = argument(argc, argv, 5, "depth");
    if (depth == 0 || depth > DEPTH_MAX || least < 16 || most < least)
        fail("at most %d blocks that wait, and lengths from 16 bytes on", DEPTH_MAX);
    uint64_t faults = page_faults();
    run_threads(2, work);
    result_number("page_faults", (double)(page_faults() - faults));
    return result_print(check);
}
