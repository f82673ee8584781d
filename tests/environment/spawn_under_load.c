/*
 * spawn_under_load.c: the other ways to start a program, vfork with exec, posix_spawn, popen and
 * system, while threads allocate and free; and a child of fork that runs a program at once.
 */
#define _GNU_SOURCE

#include "check.h"

#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

static atomic_bool is_over;
static char *const PROGRAM[] = {(char *)(size_t)"/bin/true", NULL};

static void *worker(void *argument)
{
    unsigned long seed = (unsigned long)(size_t)argument;
    void *live[100] = {NULL};
    while (!atomic_load(&is_over)) {
        size_t slot = random_next(&seed) % 100;
        free(live[slot]);
        live[slot] = malloc(random_next(&seed) % 20000);
    }
    for (size_t slot = 0; slot < 100; slot++)
        free(live[slot]);
    return NULL;
}

static void run_by_vfork(void)
{
    pid_t child = vfork();
    if (child == 0) {
        execv(PROGRAM[0], PROGRAM);
        _exit(127);
    }
    check_child_succeeds(child, "a program started by vfork");
}

static void run_by_fork(void)
{
    pid_t child = fork();
    if (child == 0) {
        execv(PROGRAM[0], PROGRAM);
        _exit(127);
    }
    check_child_succeeds(child, "a program started by fork");
}

static void run_by_spawn(void)
{
    pid_t child = -1;
    CHECK(posix_spawn(&child, PROGRAM[0], NULL, NULL, PROGRAM, environ) == 0, "posix_spawn");
    check_child_succeeds(child, "a program started by posix_spawn");
}

static void run_by_shell(void)
{
    CHECK(system("exit 0") == 0, "a command run by system fails");
    FILE *stream = popen("echo some words", "r");
    CHECK(stream != NULL, "popen");
    char words[20] = "";
    CHECK(fgets(words, sizeof words, stream) != NULL && strcmp(words, "some words\n") == 0,
          "popen read '%s'", words);
    CHECK(pclose(stream) == 0, "a command run by popen fails");
}

int main(void)
{
    check_is_calmalloc();
    check_time_limit(100);
    pthread_t workers[3];
    for (size_t w = 0; w < 3; w++)
        CHECK(pthread_create(&workers[w], NULL, worker, (void *)(w + 1)) == 0, "no thread");
    for (int i = 0; i < 30; i++) {
        run_by_vfork();
        run_by_fork();
        run_by_spawn();
        run_by_shell();
    }
    atomic_store(&is_over, true);
    for (int w = 0; w < 3; w++)
        pthread_join(workers[w], NULL);
    return 0;
}
