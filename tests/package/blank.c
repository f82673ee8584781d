/*
 * blank.c: a program that knows nothing of calmalloc and has memory of its own where another one
 * had its: whoever still writes there is found out.
 *
 *   blank ADDRESS BYTES ...   maps these ranges, waits until its standard input ends, and says
 *                             whether they are still zero
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int count, char **words)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    for (int i = 1; i + 1 < count; i += 2) {
        uintptr_t start = strtoull(words[i], NULL, 10) / page * page;
        uintptr_t end = strtoull(words[i], NULL, 10) + strtoull(words[i + 1], NULL, 10);
        for (; start < end; start += page) /* ranges may share a page */
            if (mmap((void *)start, page, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
                return 2;
    }
    (void)!write(1, "blank\n", 6);
    char byte;
    while (read(0, &byte, 1) > 0)
        ;
    for (int i = 1; i + 1 < count; i += 2) {
        const char *start = (const char *)strtoull(words[i], NULL, 10);
        for (unsigned long long at = 0; at < strtoull(words[i + 1], NULL, 10); at++)
            if (start[at] != 0) {
                puts("touched");
                return 1;
            }
    }
    puts("untouched");
    return 0;
}
