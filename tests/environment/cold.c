/*
 * cold.c: 60 MB that nobody touches go to swap on request, by trial once they are old enough, or
 * unasked while the program goes on to free, and come back with every byte; what is in use stays.
 * Where there is no swap all stays as it is.
 *
 * usage: cold request|trial|unasked
 */
#include "check.h"

#include <calmalloc/calmalloc.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>

enum {
    COLD_BYTES = 60 * 1000 * 1000,
    HOT_BLOCKS = 64,
    HOT_BYTES = 256 * 1024,
    BLOCKS_MAX = 400000,
    GONE_PERCENT = 94,
    AGE_MS = 300,
    TOUCH_MS = 5,
    UNASKED_S = 30,
    SWAP_MIN_KIB = 128 * 1024,
};

static void **blocks;
static size_t *sizes;
static size_t count;
static char *hot[HOT_BLOCKS];

/* KiB of swap that are free. */
static long swap_free(void)
{
    char line[128];
    long kib = 0;
    FILE *file = fopen("/proc/meminfo", "r");
    CHECK(file != NULL, "no /proc/meminfo");
    while (fgets(line, sizeof line, file) != NULL && sscanf(line, "SwapFree: %ld", &kib) != 1)
        continue;
    fclose(file);
    return kib;
}

/* Two thirds in small blocks, the rest in large ones. What random_next writes does not compress. */
static void fill(void)
{
    unsigned long seed = 99;
    for (size_t total = 0; total < COLD_BYTES; count++) {
        bool is_large = total > COLD_BYTES / 3 * 2;
        size_t size = is_large ? 100 * KIB + random_next(&seed) % MIB
                               : 16 + random_next(&seed) % 900;
        unsigned long *words = malloc(size);
        CHECK(words != NULL && count < BLOCKS_MAX, "no memory");
        for (size_t i = 0; i < size / sizeof *words; i++)
            words[i] = count * 31 + (i % 16 == 0 ? random_next(&seed) : i);
        block_sign(words, size);
        blocks[count] = words;
        sizes[count] = size;
        total += size;
    }
}

static void touch_hot(void)
{
    for (size_t i = 0; i < HOT_BLOCKS; i++)
        for (size_t at = 0; at < HOT_BYTES; at += 4096)
            hot[i][at]++;
}

static void rest(unsigned milliseconds)
{
    for (unsigned slept = 0; slept < milliseconds; slept += TOUCH_MS) {
        touch_hot();
        sleep_ms(TOUCH_MS);
    }
    touch_hot();
}

static void expect_all_whole(void)
{
    for (size_t i = 0; i < count; i++)
        CHECK(block_is_signed(blocks[i], sizes[i]), "block %zu lost its bytes", i);
}

/* What the program does meanwhile: each step of giving back comes with frees. */
static void go_on(void)
{
    enum { GOES_ON = 200, GOES_ON_BYTES = 4000 };
    static void *more[GOES_ON];
    for (size_t i = 0; i < GOES_ON; i++)
        more[i] = malloc(GOES_ON_BYTES);
    for (size_t i = 0; i < GOES_ON; i++)
        free(more[i]);
    rest(TOUCH_MS);
}

/* Bytes above `base`, and no less than 0. */
static size_t resident_above(size_t base)
{
    size_t now = anonymous_bytes();
    return now > base ? now - base : 0;
}

int main(int argc, char **argv)
{
    check_is_calmalloc();
    CHECK(argc == 2, "usage: cold request|trial|unasked");
    size_t (*page_out_cold)(uint64_t);
    *(void **)&page_out_cold = check_symbol("calm_page_out_cold");
    bool is_request = argv[1][0] == 'r', is_unasked = argv[1][0] == 'u';
    bool has_swap = swap_free() >= SWAP_MIN_KIB;
    blocks = book(BLOCKS_MAX * sizeof *blocks);
    sizes = book(BLOCKS_MAX * sizeof *sizes);
    size_t before = anonymous_bytes();
    fill();
    malloc_trim(0); /* what is free now would go back later, and count as cold */
    size_t full = resident_above(before), most = full / 100 * (100 - GONE_PERCENT);
    for (size_t i = 0; i < HOT_BLOCKS; i++)
        hot[i] = memset(malloc(HOT_BYTES), 1, HOT_BYTES);
    size_t hot_bytes = resident_above(before) - full;
    double begun = seconds_now();
    if (is_unasked) {
        double end = begun + UNASKED_S;
        while (seconds_now() < end && resident_above(before + hot_bytes) > most && has_swap)
            go_on();
    } else {
        page_out_cold(is_request ? 0 : AGE_MS);
    }
    if (argv[1][0] == 't') {
        rest(AGE_MS);
        page_out_cold(AGE_MS);
    }
    double out_ms = (seconds_now() - begun) * 1000;
    touch_hot();
    size_t stayed = resident_above(before + hot_bytes), there = resident_above(before);
    begun = seconds_now();
    expect_all_whole();
    double back_ms = (seconds_now() - begun) * 1000;
    begun = seconds_now();
    expect_all_whole();
    double again_ms = (seconds_now() - begun) * 1000;
    printf("%zu of %zu KiB stayed beside %zu in use; out %.1f ms, back %.1f ms, again %.1f ms\n",
           stayed / KIB, full / KIB, hot_bytes / KIB, out_ms, back_ms, again_ms);
    check_heap();
    CHECK(there >= hot_bytes / 100 * 95, "%zu KiB in use, %zu are there", hot_bytes / KIB,
          there / KIB);
    if (has_swap)
        CHECK(stayed <= most, "%zu of %zu KiB stayed", stayed / KIB, full / KIB);
    else
        CHECK(stayed >= full / 100 * 99, "without swap %zu of %zu KiB stayed", stayed / KIB,
              full / KIB);
    return 0;
}
