/*
 * tiny.c: a program that allocates almost nothing; prints in KiB what memory it has, and what
 * of it is of no file. tiny_size.py compares the second with the same program on the C library's
 * own heap, policy_size.py under the policies.
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
    dprintf(STDOUT_FILENO, "%zu %zu\n", resident_bytes() / KIB, anonymous_bytes() / KIB);
    free(block);
    free(words);
    return 0;
}
