/*
 * engine.c: an executor in a whole program, for scripts that look at it from outside.
 *
 *     engine load TASKS   submits as fast as one worker takes them, and says on standard output
 * what became of them and how often the program's heap was called meanwhile. Two calls of getppid
 *                         enclose the load, for who counts system calls.
 *     engine hold         two workers: core 1 is held by a task, with three behind it; core 0 has
 * one block of 1024 bytes in use. Says "ready", and goes on when standard input ends. engine gone
 * says that after an executor has come and gone.
 */
#define _GNU_SOURCE

#include <calmalloc/exec.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { INBOX = 1024, TASK_NS = 10000, HELD_BEHIND = 3, HELD_BYTES = 1024 };

static _Atomic uint64_t ran, checked, heap_calls;
static _Atomic bool is_open, is_inside;
static void *_Atomic held_block;

/* The program's heap: the C library's, counted. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *block, size_t bytes);
void __libc_free(void *block);

void *malloc(size_t bytes)
{
    heap_calls++;
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    heap_calls++;
    return __libc_calloc(count, bytes);
}

void *realloc(void *block, size_t bytes)
{
    heap_calls++;
    return __libc_realloc(block, bytes);
}

void free(void *block)
{
    heap_calls++;
    __libc_free(block);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void work(calm_worker *worker, void *payload)
{
    uint64_t end = now_ns() + TASK_NS;
    void *block = calm_worker_alloc(worker, 64);
    checked += block != NULL ? *(uint64_t *)payload : 0;
    calm_worker_free(worker, block);
    while (now_ns() < end)
        continue;
    ran++;
}

static void hold(calm_worker *worker, void *payload)
{
    (void)worker;
    (void)payload;
    is_inside = true;
    while (!is_open)
        usleep(1000);
}

static void keep(calm_worker *worker, void *payload)
{
    (void)payload;
    held_block = calm_worker_alloc(worker, HELD_BYTES);
}

static void nothing(calm_worker *worker, void *payload)
{
    (void)worker;
    (void)payload;
}

static calm_exec *start(uint32_t cores)
{
    static const size_t block_bytes[] = {64, HELD_BYTES};
    static const uint32_t percent[] = {50, 50};
    struct calm_pool_config pools[2];
    for (uint32_t core = 0; core < cores; core++)
        pools[core] = (struct calm_pool_config){
            .block_bytes = block_bytes, .percent = percent, .classes = 2, .bytes = 1 << 18};
    struct calm_exec_config config = {.pools = pools,
                                      .cores = cores,
                                      .inbox_capacity = INBOX,
                                      .payload_bytes = sizeof(uint64_t),
                                      .policy = "jsq"};
    calm_exec *exec = NULL;
    int error = calm_exec_start(&config, &exec);
    if (error != 0) {
        fprintf(stderr, "engine: %s\n", calm_exec_strerror(error));
        exit(1);
    }
    return exec;
}

/* Keeps the inbox full, so that the worker never has nothing to do. */
static int load_it(uint64_t tasks)
{
    calm_exec *exec = start(1);
    uint64_t sum = 0, number = 0, heap_before = 0;
    struct calm_task task = {.function = work, .payload_bytes = sizeof number, .block_bytes = 64};
    task.payload = &number;
    while (number < tasks) {
        if (number == tasks / 4) {
            heap_before = heap_calls;
            (void)syscall(SYS_getppid);
        }
        if (calm_exec_submit(exec, &task) == 0)
            sum += number++;
    }
    (void)syscall(SYS_getppid);
    uint64_t heap_after = heap_calls;
    calm_exec_drain(exec);
    struct calm_exec_stats stats;
    calm_exec_stats_read(exec, &stats);
    calm_exec_destroy(exec);
    printf("{\"tasks\": %llu, \"accepted\": %llu, \"ran\": %llu, \"is_whole\": %s, \"heap_calls\": "
           "%llu}\n",
           (unsigned long long)tasks, (unsigned long long)stats.accepted, (unsigned long long)ran,
           sum == checked ? "true" : "false", (unsigned long long)(heap_after - heap_before));
    return 0;
}

/* Says so, and waits until standard input ends. */
static void wait_for_end(void)
{
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF)
        continue;
}

static int hold_it(void)
{
    calm_exec *exec = start(2);
    struct calm_task task = {.function = hold};
    calm_exec_send(exec, 1, &task);
    while (!is_inside)
        usleep(1000);
    task.function = nothing;
    for (unsigned i = 0; i < HELD_BEHIND; i++)
        calm_exec_send(exec, 1, &task);
    task.function = keep;
    calm_exec_send(exec, 0, &task);
    while (held_block == NULL)
        usleep(1000);
    wait_for_end();
    is_open = true;
    calm_exec_free(exec, held_block);
    calm_exec_destroy(exec);
    return 0;
}

int main(int count, char **words)
{
    if (count == 3 && strcmp(words[1], "load") == 0)
        return load_it(strtoull(words[2], NULL, 10));
    if (count == 2 && strcmp(words[1], "hold") == 0)
        return hold_it();
    if (count == 2 && strcmp(words[1], "gone") == 0) {
        calm_exec_destroy(start(2));
        wait_for_end();
        return 0;
    }
    fprintf(stderr, "engine: load TASKS, hold or gone\n");
    return 2;
}
