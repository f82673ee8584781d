/*
 * watched.c: a program to look at from outside. Its first word says how it goes on once it holds
 * what it holds; it never asks calmalloc for anything but memory.
 *
 *   idle      waits, and asks for no more memory
 *   churn     replaces a block of 1000 bytes 20 times a millisecond, on and on
 *   warm      frees a block and asks for one of its size: no cache is ever empty
 *   zeroed    as churn, by calloc alone
 *   leave     waits until its standard input ends, then ends
 *   wake      waits for a byte on its standard input, then goes on as churn
 *   early     waits before it asks for anything
 *   grow      as churn, but keeps each twentieth block
 *   become    as churn, until a line PROGRAM ARGS comes on its standard input; then it is PROGRAM
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SMALL = 60000, MIDDLE = 20000, LARGE_BYTES = 9 << 20, RING = 4000 };

static char *volatile kept[SMALL + MIDDLE];
static char *volatile ring[RING];
static char *volatile large;
static char *volatile grown;

__attribute__((noinline)) static void hold_small(int i)
{
    kept[i] = malloc(100);
    kept[i][0] = 1;
}

__attribute__((noinline)) static void hold_middle(int i)
{
    kept[i] = calloc(1, 900);
    kept[i][0] = 1;
}

__attribute__((noinline)) static void replace(int i, int is_zeroed)
{
    free(ring[i]);
    ring[i] = is_zeroed ? calloc(1, 1000) : malloc(1000);
    ring[i][0] = 1;
}

__attribute__((noinline)) static void leak(void)
{
    grown = malloc(3000);
    grown[0] = 1;
}

/* Whether there is a line; then this is another program. */
static void become(void)
{
    static char line[4096];
    char *arguments[64], *end = line;
    struct pollfd input = {.fd = 0, .events = POLLIN};
    if (poll(&input, 1, 0) <= 0)
        return;
    while (read(0, end, 1) == 1 && *end != '\n')
        end++;
    *end = '\0';
    size_t words = 0;
    for (char *word = strtok(line, " "); word != NULL && words < 63; word = strtok(NULL, " "))
        arguments[words++] = word;
    arguments[words] = NULL;
    execve(arguments[0], arguments, (char *[]){NULL});
    _exit(1);
}

int main(int count, char **words)
{
    const char *way = count > 1 ? words[1] : "idle";
    if (strcmp(way, "early") == 0) {
        (void)!write(1, "ready\n", 6);
        pause();
    }
    for (int i = 0; i < SMALL; i++)
        hold_small(i);
    for (int i = SMALL; i < SMALL + MIDDLE; i++)
        hold_middle(i);
    large = malloc(LARGE_BYTES);
    memset(large, 1, LARGE_BYTES);
    char *warm = malloc(48);
    (void)!write(1, "ready\n", 6);
    if (strcmp(way, "idle") == 0)
        pause();
    char byte;
    if (strcmp(way, "leave") == 0)
        return read(0, &byte, 1) == 0 ? 0 : 1;
    if (strcmp(way, "wake") == 0 && read(0, &byte, 1) != 1)
        return 1;
    for (int i = 0;; i = (i + 1) % RING) {
        if (strcmp(way, "warm") == 0) {
            free(warm);
            warm = malloc(48);
            warm[0] = 1;
        } else {
            replace(i, strcmp(way, "zeroed") == 0);
        }
        if (i % 20 == 0 && strcmp(way, "grow") == 0)
            leak();
        if (strcmp(way, "become") == 0)
            become();
        if (i % 20 == 0)
            usleep(1000);
    }
}
