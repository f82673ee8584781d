/*
 * grower.c: a program that holds more when it is told so. Each byte of its standard input is an
 * order: 'r' holds ROWS rows, 'l' a large block, 'f' frees all rows. After each it says "done".
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

int main(void)
{
    char order;
    hold_row();
    puts("ready");
    fflush(stdout);
    while (read(0, &order, 1) == 1) {
        if (order == 'l')
            hold_large();
        for (int i = 0; order == 'r' && i < ROWS; i++)
            hold_row();
        while (order == 'f' && row_count > 0)
            free(rows[--row_count]);
        puts("done");
        fflush(stdout);
    }
    return 0;
}
