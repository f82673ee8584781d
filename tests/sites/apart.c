/*
 * apart.c: eight functions ask xmalloc for blocks of many sizes, then of one. Prints how many slabs
 * (64 KiB) the latter lie in, and in how many of these there are blocks of one function only.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define NOINLINE __attribute__((noinline))

enum { MAKERS = 8, MIXED = 60000, EQUAL = 10000, BYTES = 200, UNIT_SHIFT = 16, UNITS = 1 << 16 };

static unsigned char seen[UNITS]; /* a bit for each function */
static uintptr_t lowest = UINTPTR_MAX;

NOINLINE static void *xmalloc(size_t bytes)
{
    void *block = malloc(bytes);
    if (block == NULL)
        abort();
    return block;
}

#define MAKE(name)                                                                                 \
    NOINLINE static char *name(size_t bytes)                                                       \
    {                                                                                              \
        char *block = xmalloc(bytes);                                                              \
        block[0] = 1;                                                                              \
        return block;                                                                              \
    }

MAKE(make_a)
MAKE(make_b)
MAKE(make_c)
MAKE(make_d)
MAKE(make_e)
MAKE(make_f)
MAKE(make_g)
MAKE(make_h)

static char *blocks[MAKERS][EQUAL];

int main(void)
{
    static char *(*const makers[MAKERS])(size_t) = {make_a, make_b, make_c, make_d,
                                                    make_e, make_f, make_g, make_h};
    for (size_t i = 0; i < MIXED; i++) /* they stay: the heap has to be large */
        makers[i * 31 / 7 % MAKERS](300 + i % 40 * 8);
    for (size_t i = 0; i < EQUAL; i++)
        for (size_t maker = 0; maker < MAKERS; maker++) {
            blocks[maker][i] = makers[maker](BYTES);
            uintptr_t at = (uintptr_t)blocks[maker][i] >> UNIT_SHIFT;
            lowest = at < lowest ? at : lowest;
        }
    for (size_t maker = 0; maker < MAKERS; maker++)
        for (size_t i = 0; i < EQUAL; i++) {
            uintptr_t unit = ((uintptr_t)blocks[maker][i] >> UNIT_SHIFT) - lowest;
            if (unit >= UNITS)
                return 1;
            seen[unit] |= (unsigned char)(1u << maker);
        }
    unsigned slabs = 0, pure = 0;
    for (size_t unit = 0; unit < UNITS; unit++) {
        slabs += seen[unit] != 0;
        pure += seen[unit] != 0 && (seen[unit] & (seen[unit] - 1)) == 0;
    }
    printf("%u %u\n", slabs, pure);
    return 0;
}
