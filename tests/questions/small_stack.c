/*
 * small_stack.c: a thread whose stack is PTHREAD_STACK_MIN, 16 KiB with what the C library keeps
 * there, asks the heap for everything. Below the stack lies a guard.
 */
#define _GNU_SOURCE

#include "../environment/check.h"

#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { STACK_BYTES = 16384, GUARD_BYTES = 65536, BLOCKS = 200, PAINT = 0x5a };

static FILE *nowhere;
static void *blocks[BLOCKS];
static const char *volatile asked = "nothing";

static void use_small_and_large(void)
{
    static const size_t sizes[] = {1, 100, 1000, 10000, 100000, 3000000};
    asked = "blocks";
    for (size_t i = 0; i < BLOCKS; i++) {
        size_t size = sizes[i % 6] + i;
        blocks[i] = i % 3 == 0 ? calloc(1, size) : i % 3 == 1 ? malloc(size) : memalign(4096, size);
        CHECK(blocks[i] != NULL, "no block");
    }
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = realloc(blocks[i], 2 * malloc_usable_size(blocks[i]));
    for (size_t i = 0; i < BLOCKS; i++)
        free(blocks[i]);
}

static void *ask(void *argument)
{
    static char other_stack[65536];
    stack_t other = {.ss_sp = other_stack, .ss_size = sizeof other_stack};
    sigaltstack(&other, NULL);
    use_small_and_large();
    asked = "too much";
    CHECK(malloc((size_t)hidden((void *)(SIZE_MAX / 4))) == NULL, "too much was granted");
    asked = "malloc_trim";
    malloc_trim(0);
    asked = "mallinfo";
    mallinfo2();
    asked = "malloc_stats";
    malloc_stats();
    asked = "malloc_info";
    CHECK(malloc_info(0, nowhere) == 0, "no malloc_info");
    asked = "blocks again";
    use_small_and_large();
    asked = "a profile";
    struct sigaction action;
    sigaction(SIGUSR2, NULL, &action);
    if (action.sa_handler != SIG_DFL)
        raise(SIGUSR2);
    return argument;
}

static void on_fault(int number)
{
    static const char words[] = "the stack was too small for ";
    ssize_t written = write(STDOUT_FILENO, words, sizeof words - 1);
    written += write(STDOUT_FILENO, asked, strlen(asked));
    _exit(written > 0 ? 2 : number);
}

int main(void)
{
    check_is_calmalloc();
    check_time_limit(60);
    nowhere = fopen("/dev/null", "w");
    CHECK(nowhere != NULL && dup2(fileno(nowhere), STDERR_FILENO) >= 0, "no /dev/null");
    fprintf(nowhere, "its buffer\n");
    char *map = mmap(NULL, GUARD_BYTES + STACK_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                     0);
    CHECK(map != MAP_FAILED, "no memory");
    char *stack = map + GUARD_BYTES;
    CHECK(mprotect(stack, STACK_BYTES, PROT_READ | PROT_WRITE) == 0, "no memory");
    memset(stack, PAINT, STACK_BYTES);
    struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_ONSTACK};
    sigaction(SIGSEGV, &action, NULL);
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    CHECK(pthread_attr_setstack(&attributes, stack, STACK_BYTES) == 0, "no such stack");
    CHECK(pthread_create(&thread, &attributes, ask, NULL) == 0, "no thread");
    pthread_join(thread, NULL);
    size_t unused = 0;
    while (unused < STACK_BYTES && stack[unused] == PAINT)
        unused++;
    printf("%zu bytes of %d were never touched\n", unused, STACK_BYTES);
    return 0;
}
