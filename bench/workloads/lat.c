/*
 * lat SEED SINGLE BYTES COUNT: malloc, touch, free, one after the other. SINGLE 0 times COUNT of
 * them in blocks of 32 with one reading of the counter each: the form in which many figures are
 * published, and a mean, not a tail. SINGLE 1 times each malloc and each free for itself.
 *
 * Measures the shortest way through an allocator and how far it scatters. 64 witnesses of the same
 * size stay alive and must keep their contents. Does not measure locality, growth or refills: the
 * block that comes back is the one that just went.
 *
 * CALM_POOL_OWN=1 in the environment calls a library of pools by its own interface in the first
 * form, as programs do that use pools; else its pools stand behind malloc and free.
 */
#include "own.h"
#include "tail.h"

enum { TOGETHER = 32, WITNESSES = 64 };

static void *witnesses[WITNESSES];
static struct tail pairs, mallocs, frees;

static uint64_t run_own(struct own own, uint64_t seed, size_t bytes, uint64_t count)
{
    uint64_t check = 0;
    pairs.calls_each = TOGETHER;
    for (uint64_t i = 0; i < count; i += TOGETHER) {
        uint64_t before = ticks_before();
        for (uint64_t j = i; j < i + TOGETHER; j++)
            check += release_own(own, allocate_own(own, bytes, (unsigned char)(seed + j)));
        uint64_t after = ticks_after();
        tail_add(&pairs, before, after);
    }
    return check;
}

static uint64_t run_together(uint64_t seed, size_t bytes, uint64_t count)
{
    uint64_t check = 0;
    pairs.calls_each = TOGETHER;
    for (uint64_t i = 0; i < count; i += TOGETHER) {
        uint64_t before = ticks_before();
        for (uint64_t j = i; j < i + TOGETHER; j++)
            check += release(allocate(bytes, (unsigned char)(seed + j)));
        uint64_t after = ticks_after();
        tail_add(&pairs, before, after);
    }
    return check;
}

static uint64_t run_single(uint64_t seed, size_t bytes, uint64_t count)
{
    uint64_t check = 0;
    for (uint64_t i = 0; i < count; i++) {
        unsigned char *block = timed_malloc(&mallocs, bytes, seed + i);
        check += *block;
        timed_free(&frees, block, bytes, seed + i);
    }
    return check;
}

int main(int argc, char **argv)
{
    uint64_t seed = argument(argc, argv, 1, "seed");
    bool single = argument(argc, argv, 2, "single") != 0;
    size_t bytes = argument(argc, argv, 3, "bytes");
    uint64_t count = argument(argc, argv, 4, "count") / TOGETHER * TOGETHER + TOGETHER;
    uint64_t expected = 0;
    if (bytes < 16)
        fail("blocks of at least 16 bytes");
    tail_begin();
    for (unsigned i = 0; i < WITNESSES; i++) {
        witnesses[i] = allocate(bytes, 0);
        stamp_put(witnesses[i], bytes, ~(uint64_t)i);
    }
    struct own own = find_own();
    start_clock();
    uint64_t check = single             ? run_single(seed, bytes, count)
                     : own.pool != NULL ? run_own(own, seed, bytes, count)
                                        : run_together(seed, bytes, count);
    stop_clock();
    for (unsigned i = 0; i < WITNESSES; i++) {
        stamp_verify(witnesses[i], bytes, ~(uint64_t)i);
        free(witnesses[i]);
    }
    for (uint64_t i = 0; i < count; i++)
        expected += (unsigned char)(seed + i);
    if (check != expected)
        fail("the bytes read back are not the bytes written");
    tail_result_empty();
    if (single) {
        tail_result("malloc", &mallocs);
        tail_result("free", &frees);
    } else {
        tail_result("pair32", &pairs);
    }
    return result_print(check);
}
