/*
 * fork_cost.c: what forks cost that have many sleeping threads with used heaps: prints the
 * processor's microseconds a fork, of the parent and of a child that ends at once. Under any
 * allocator.
 */
#define _GNU_SOURCE

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 500, FORKS = 40, BLOCKS = 600, STACK_BYTES = 65536 };

static pthread_barrier_t barrier;

static void *use_and_sleep(void *argument)
{
    void *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(16 + i % 40 * 16);
        if (blocks[i] == NULL)
            _exit(1);
        memset(blocks[i], 1, 16);
    }
    for (size_t i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    pthread_barrier_wait(&barrier);
    pause();
    return argument;
}

static double processor_us(int who)
{
    struct rusage used;
    getrusage(who, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e6 +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

int main(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_barrier_init(&barrier, NULL, THREADS + 1);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&thread, &attributes, use_and_sleep, NULL) != 0)
            return 77;
    pthread_barrier_wait(&barrier);
    double parent = processor_us(RUSAGE_SELF), children = processor_us(RUSAGE_CHILDREN);
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();
        if (child == 0)
            _exit(0);
        if (child < 0 || waitpid(child, NULL, 0) != child)
            return 1;
    }
    printf("%.0f\n",
           (processor_us(RUSAGE_SELF) - parent + processor_us(RUSAGE_CHILDREN) - children) / FORKS);
    fflush(stdout);
    _exit(0);
}
