/*
 * many_sites.c: SITES call sites allocate blocks of two sizes each and free half of them; prints
 * in KiB what memory the program has, and what of it is of no file. For `overflow`, 1100 more sites
 * do. policy_size.py compares policies.
 */
#define _GNU_SOURCE

#include "check.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "calmalloc/calmalloc.h"

enum { SITES = 1000, MORE = 1100, BLOCKS = 4, SIZES = 40, SIZE_STEP = 24 };

/* A function with a call of its own for each number, which is the line's and the column's. */
#define SITE(n)                                                                                    \
    static __attribute__((noinline)) void *site_##n(size_t bytes)                                  \
    {                                                                                              \
        void *block = malloc(bytes);                                                               \
        __asm__ volatile("" : "+r"(block));                                                        \
        return block;                                                                              \
    }
#define TEN(what, n)                                                                               \
    what(n##0) what(n##1) what(n##2) what(n##3) what(n##4) what(n##5) what(n##6) what(n##7)        \
        what(n##8) what(n##9)
#define HUNDRED(what, n)                                                                           \
    TEN(what, n##0)                                                                                \
    TEN(what, n##1)                                                                                \
    TEN(what, n##2) TEN(what, n##3) TEN(what, n##4) TEN(what, n##5) TEN(what, n##6)                \
        TEN(what, n##7) TEN(what, n##8) TEN(what, n##9)
#define ALL(what)                                                                                  \
    HUNDRED(what, 1)                                                                               \
    HUNDRED(what, 2)                                                                               \
    HUNDRED(what, 3) HUNDRED(what, 4) HUNDRED(what, 5) HUNDRED(what, 6) HUNDRED(what, 7)           \
        HUNDRED(what, 8) HUNDRED(what, 9) HUNDRED(what, 10) HUNDRED(what, 11) HUNDRED(what, 12)    \
            HUNDRED(what, 13) HUNDRED(what, 14) HUNDRED(what, 15) HUNDRED(what, 16)                \
                HUNDRED(what, 17) HUNDRED(what, 18) HUNDRED(what, 19) HUNDRED(what, 20)            \
                    HUNDRED(what, 21)
#define NAME(n) site_##n,

ALL(SITE)

static void *(*const sites[])(size_t) = {ALL(NAME)};
_Static_assert(sizeof sites / sizeof sites[0] == SITES + MORE, "as many sites as are promised");

static void use(size_t first, size_t count)
{
    static void *blocks[BLOCKS];
    for (size_t site = first; site < first + count; site++) {
        for (size_t i = 0; i < BLOCKS; i++) {
            size_t bytes = 16 + (site + i % 2 * 7) % SIZES * SIZE_STEP;
            blocks[i] = sites[site](bytes);
            CHECK(blocks[i] != NULL, "no memory");
            memset(blocks[i], 1, bytes);
        }
        free(blocks[0]);
        free(blocks[1]);
    }
}

int main(int argc, char **argv)
{
    check_is_calmalloc();
    use(0, SITES - 50); /* the C library and this program's check have sites, too */
    dprintf(STDOUT_FILENO, "%zu %zu\n", resident_bytes() / KIB, anonymous_bytes() / KIB);
    if (argc < 2 || strcmp(argv[1], "overflow") != 0)
        return 0;
    void (*read_statistics)(struct calm_stats *);
    *(void **)&read_statistics = check_symbol("calm_stats_read");
    struct calm_stats before, after;
    read_statistics(&before);
    CHECK(before.overflow_sites == 0, "%zu sites overflow", (size_t)before.overflow_sites);
    use(SITES - 50, MORE + 50);
    use(0, SITES + MORE);
    read_statistics(&after);
    size_t sites_seen = (size_t)before.interned_sites + MORE + 50;
    CHECK(after.interned_sites == SITES, "%zu sites have a cohort", (size_t)after.interned_sites);
    CHECK(after.overflow_sites == sites_seen - SITES, "%zu sites overflow, it should be %zu",
          (size_t)after.overflow_sites, sites_seen - SITES);
    check_heap();
    return 0;
}
