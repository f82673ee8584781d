/*
 * sites SEED MODE: 400 call sites of malloc, each keeping 6 KiB alive. MODE 0: 96 blocks of 64 B a
 * site. MODE 1: 14 blocks of 14 sizes a site. MODE 2: as 1, but all through one call site, for
 * comparison.
 *
 * Measures what an allocator that separates callers pays for it: 400 sites times 14 sizes are 5600
 * places to keep a partly used page. Each site is a function of its own that the compiler may
 * neither merge nor turn into a jump. Every byte is written, as the question is memory. Does not
 * measure time.
 */
#include "workload.h"

enum { SITES = 400, SITE_BYTES = 6144, BLOCKS_MAX = 96 };

static const uint16_t sizes[14] = {16,  32,  48,  64,  96,  128,  192,
                                   256, 384, 512, 576, 768, 1024, 2048};

/* The empty asm keeps the call from being the last thing the function does, and names the site so
 * none is merged. */
#define SITE(n)                                                                                    \
    static __attribute__((noinline)) void *site_##n(size_t bytes)                                  \
    {                                                                                              \
        void *block = malloc(bytes);                                                               \
        __asm__ volatile("" : "+r"(block) : "i"(1##n));                                            \
        return block;                                                                              \
    }
#define NAME(n) site_##n,
#define TEN(X, n) X(n##0) X(n##1) X(n##2) X(n##3) X(n##4) X(n##5) X(n##6) X(n##7) X(n##8) X(n##9)
#define HUNDRED(X, n)                                                                              \
    TEN(X, n##0)                                                                                   \
    TEN(X, n##1)                                                                                   \
    TEN(X, n##2)                                                                                   \
    TEN(X, n##3) TEN(X, n##4) TEN(X, n##5) TEN(X, n##6) TEN(X, n##7) TEN(X, n##8) TEN(X, n##9)
#define ALL(X) HUNDRED(X, 1) HUNDRED(X, 2) HUNDRED(X, 3) HUNDRED(X, 4)

ALL(SITE)
static void *(*const sites[SITES])(size_t) = {ALL(NAME)};

static struct {
    unsigned char *block;
    uint32_t bytes;
    unsigned char tag;
} blocks[SITES][BLOCKS_MAX];

int main(int argc, char **argv)
{
    uint64_t random = random_stream(argument(argc, argv, 1, "seed"), 0), check = 0;
    unsigned mode = (unsigned)argument(argc, argv, 2, "mode");
    unsigned blocks_a_site = mode == 0 ? BLOCKS_MAX : 14;
    uint64_t requested = 0;
    memset(blocks, 0, sizeof blocks);
    struct memory start = read_memory();
    start_clock();
    for (unsigned i = 0; i < blocks_a_site; i++)
        for (unsigned site = 0; site < SITES; site++) {
            size_t bytes = mode == 0 ? SITE_BYTES / BLOCKS_MAX : sizes[i];
            unsigned char *block = sites[mode == 2 ? 0 : site](bytes);
            if (block == NULL)
                fail("malloc(%zu) returned NULL", bytes);
            unsigned char tag = (unsigned char)next_random(&random);
            memset(block, tag, bytes);
            blocks[site][i].tag = tag;
            blocks[site][i].block = block;
            blocks[site][i].bytes = (uint32_t)bytes;
            requested += bytes;
        }
    stop_clock();
    struct memory full = read_memory();
    for (unsigned site = 0; site < SITES; site++)
        for (unsigned i = 0; i < blocks_a_site; i++) {
            unsigned char *block = blocks[site][i].block;
            unsigned char tag = blocks[site][i].tag;
            if (block[0] != tag || block[blocks[site][i].bytes - 1] != tag)
                fail("a block's contents changed");
            check = check * 31 + release(block);
        }
    result_number("requested_kib", (double)requested / 1024);
    result_number("grown_kib", (double)(full.resident_kib - start.resident_kib));
    result_memory("full", full);
    return result_print(check);
}
