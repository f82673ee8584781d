/*
 * misuse_program.c: commits the misuse that its argument names, for the tests that set CALM_OPTIONS
 * from outside. Says on standard output what it expects to read on standard error.
 */
#define _GNU_SOURCE

#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int in_data;

static void *hidden(void *pointer)
{
    __asm__ volatile("" : "+r"(pointer) : : "memory");
    return pointer;
}

static void free_twice(void)
{
    void *block = hidden(malloc(64));
    printf("calmalloc: double free of %p: a block of %zu bytes that is already free\n", block,
           malloc_usable_size(block));
    fflush(stdout);
    free(block);
    free(hidden(block));
}

static void free_inside(void)
{
    void *inside = hidden((char *)hidden(malloc(64)) + 16);
    printf("calmalloc: free of %p: 16 bytes inside a block of 64 bytes, not at its start\n",
           inside);
    fflush(stdout);
    free(inside);
}

static void free_foreign(const char *sentence)
{
    printf(sentence[0] == 'n' ? "calmalloc: foreign free of %p: not from calmalloc; ignored\n"
                              : "calmalloc: free of %p: not from calmalloc\n",
           (void *)&in_data);
    fflush(stdout);
    free(hidden(&in_data));
}

int main(int argc, char **argv)
{
    const char *misuse = argc > 1 ? argv[1] : "";
    if (strcmp(misuse, "double") == 0)
        free_twice();
    else if (strcmp(misuse, "inside") == 0)
        free_inside();
    else if (strcmp(misuse, "foreign-named") == 0)
        free_foreign("named");
    else if (strcmp(misuse, "foreign-stops") == 0)
        free_foreign("stops");
    else
        return 2;
    return 0;
}
