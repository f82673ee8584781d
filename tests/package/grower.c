/*
 * grower.c: a program that holds more when it is told so. Each byte of its standard input is an
 * order: 'r' holds ROWS rows, 'l' a large block, 'f' frees all rows, 'm' holds blocks of many sizes
 * from as many sites. After each it says "done".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROWS = 100000, ROW_BYTES = 200, LARGE_BYTES = 12 << 20, ROWS_MAX = 4 * ROWS };

static char *volatile rows[ROWS_MAX];
static char *volatile large;
static int row_count;

__attribute__((noinline)) static void hold_row(void)
{
    char *row = malloc(ROW_BYTES);
    memset(row, 1, ROW_BYTES);
    rows[row_count++ % ROWS_MAX] = row;
}

__attribute__((noinline)) static void hold_large(void)
{
    large = malloc(LARGE_BYTES);
    memset(large, 1, LARGE_BYTES);
}

static void keep(void *block)
{
    static void *volatile kept;
    kept = block;
    memset(kept, 1, 24);
}

/* A line is a site. */
static void hold_many(void)
{
    keep(malloc(24));
    keep(malloc(40));
    keep(malloc(72));
    keep(malloc(88));
    keep(malloc(104));
    keep(malloc(136));
    keep(malloc(152));
    keep(malloc(168));
    keep(malloc(232));
    keep(malloc(248));
    keep(malloc(280));
    keep(malloc(312));
    keep(malloc(344));
    keep(malloc(376));
    keep(malloc(408));
    keep(malloc(456));
}

int main(void)
{
    char order;
    hold_row();
    puts("ready");
    fflush(stdout);
    while (read(0, &order, 1) == 1) {
        if (order == 'l')
            hold_large();
        for (int i = 0; order == 'm' && i < ROWS / 100; i++)
            hold_many();
        for (int i = 0; order == 'r' && i < ROWS; i++)
            hold_row();
        while (order == 'f' && row_count > 0)
            free(rows[--row_count]);
        puts("done");
        fflush(stdout);
    }
    return 0;
}
