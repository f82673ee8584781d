/*
 * explained.c: a program whose memory is to be explained: it holds what it holds, and does what it
 * is told on its standard input, a letter each, with "done" as an answer.
 *
 *   r   frees the rows, of which it kept one in thirteen
 *   l   frees the large block, of which it wrote a part
 *   p   frees the pages that it holds, blocks of 4096
 *   m   maps memory of its own, and writes it
 *   t   calls malloc_trim(0)
 *   a   ends by abort()
 */
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    ROWS = 400000,
    ROW_BYTES = 200,
    KEPT_ONE_IN = 13,
    PAGES = 4000,
    PAGE = 4096,
    LARGE_BYTES = 40 << 20,
    LARGE_WRITTEN = 12 << 20,
    READ_BYTES = 24 << 20,
    FREED_BYTES = 2 << 20,
    PASSED = 2000,
    PASSED_BYTES = 64,
    STACK_BYTES = 512 * 1024,
};

static char *rows[ROWS], *pages[PAGES], *passed[PASSED];
static char *large, *only_read;
static void *freed;
static void *volatile of_thread;

__attribute__((noinline)) static char *parse_row(void)
{
    char *row = malloc(ROW_BYTES);
    memset(row, 1, ROW_BYTES);
    return row;
}

__attribute__((noinline)) static char *take_page(void)
{
    char *page = malloc(PAGE);
    memset(page, 1, PAGE);
    return page;
}

static void *wait_with_stack(void *unused)
{
    volatile char used[STACK_BYTES];
    for (size_t i = 0; i < sizeof used; i += 1024)
        used[i] = 1;
    for (int i = 0; i < PASSED; i++) /* to batches, as another thread asked for them */
        free(passed[i * 7 % PASSED]);
    of_thread = (void *)(uintptr_t)used;
    pause();
    return unused;
}

static void hold(void)
{
    for (int i = 0; i < ROWS; i++)
        rows[i] = parse_row();
    for (int i = 0; i < PAGES; i++)
        pages[i] = take_page();
    for (int i = 0; i < PASSED; i++)
        passed[i] = malloc(PASSED_BYTES);
    for (int i = 0; i < ROWS; i++)
        if (i % KEPT_ONE_IN != 0) {
            freed = rows[i];
            free(rows[i]);
            rows[i] = NULL;
        }
    large = malloc(LARGE_BYTES);
    memset(large, 1, LARGE_WRITTEN);
    only_read = calloc(1, READ_BYTES); /* which the kernel shows as one page of zeros, many times */
    for (int i = 0; i < READ_BYTES; i += 4096)
        if (((volatile char *)only_read)[i] != 0)
            abort();
    char *short_lived = malloc(FREED_BYTES);
    memset(short_lived, 1, FREED_BYTES);
    free(short_lived);
}

static void free_all(char **blocks, int count)
{
    for (int i = 0; i < count; i++)
        free(blocks[i]);
}

int main(void)
{
    pthread_t thread;
    hold();
    pthread_create(&thread, NULL, wait_with_stack, NULL);
    while (of_thread == NULL)
        usleep(1000);
    usleep(10000); /* now it waits */
    printf("%p %p %p %p %p %p %p\n", (void *)rows[0], freed, (void *)large, (void *)&thread,
           (void *)rows, (void *)(uintptr_t)main, of_thread);
    fflush(stdout);
    for (char what; read(0, &what, 1) == 1;) {
        if (what == 'r')
            free_all(rows, ROWS);
        if (what == 'l')
            free(large);
        if (what == 'p')
            free_all(pages, PAGES);
        if (what == 'm')
            memset(
                mmap(NULL, LARGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
                1, LARGE_BYTES);
        if (what == 't')
            malloc_trim(0);
        if (what == 'a')
            abort();
        printf("done\n");
        fflush(stdout);
    }
    return 0;
}
