/*
 * tiny.c: a program that allocates almost nothing; prints its peak of resident memory in KiB.
 * tiny_size.py compares it with the same program on the C library's own heap.
 */
#define _GNU_SOURCE

#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(void)
{
    char *words = strdup("a few words");
    void *block = malloc(1000);
    CHECK(words != NULL && block != NULL, "no memory");
    memset(block, 1, 1000);
    dprintf(STDOUT_FILENO, "%zu\n", resident_bytes() / KIB);
    free(block);
    free(words);
    return 0;
}
