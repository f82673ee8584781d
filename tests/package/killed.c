/*
 * killed.c: a program that holds memory and ends as its first word says, once a line comes on its
 * standard input. It says "ready" when it holds what it holds, and calls nothing of calmalloc.
 *
 *   wait      goes on waiting, for a signal of another process
 *   return    returns from main
 *   more      holds more, says "more", and waits
 *   deaf      the same, and ignores what the keyboard and a supervisor send
 *   abort, _exit, quick_exit, kill
 *             these calls
 *   exec      becomes `sleep`, without calmalloc
 *   replace   becomes `sleep`, with calmalloc
 *   workers   three processes hold more, each its own; then all wait
 *   leave     the same, but the workers become another user's
 *   idle      another process holds and ends; this one asks for nothing, and leaves by _exit
 *   daemon    leaves at once; the other process says "ready" and stays until its input ends
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 20000, MORE = 60000, WORKERS = 3, SOMEBODY = 65534 };

static char *volatile kept[BLOCKS + MORE];

__attribute__((noinline)) static void hold(int i)
{
    kept[i] = malloc(1000);
    kept[i][0] = 1;
}

__attribute__((noinline)) static void hold_more(int i)
{
    kept[BLOCKS + i] = malloc(500);
    kept[BLOCKS + i][0] = 1;
}

static void grow(const char *said)
{
    for (int i = 0; i < MORE; i++)
        hold_more(i);
    printf("%s\n", said);
    fflush(stdout);
}

static void start_workers(int is_others)
{
    for (int i = 0; i < WORKERS; i++) {
        if (fork() != 0)
            continue;
        if (is_others && setuid(SOMEBODY) != 0)
            _exit(1);
        grow("worker");
        for (;;)
            pause();
    }
}

/* Without a request of this process: stdio would make one. */
static void leave_to_other(int is_daemon)
{
    char mark;
    if (fork() == 0) {
        for (int i = 0; i < BLOCKS; i++)
            hold(i);
        close(2);
        if (write(1, "ready\n", 6) != 6)
            abort();
        while (read(0, &mark, 1) > 0)
            continue;
        exit(0);
    }
    if (!is_daemon)
        wait(NULL);
    _exit(6);
}

int main(int count, char **words)
{
    const char *way = count > 1 ? words[1] : "wait";
    if (strcmp(way, "idle") == 0 || strcmp(way, "daemon") == 0)
        leave_to_other(strcmp(way, "daemon") == 0);
    if (strcmp(way, "deaf") == 0) {
        signal(SIGINT, SIG_IGN);
        signal(SIGTERM, SIG_IGN);
    }
    for (int i = 0; i < BLOCKS; i++)
        hold(i);
    if (strcmp(way, "workers") == 0 || strcmp(way, "leave") == 0)
        start_workers(strcmp(way, "leave") == 0);
    printf("ready\n");
    fflush(stdout);
    while (getchar() > '\n')
        ;
    if (strcmp(way, "return") == 0)
        return 5;
    if (strcmp(way, "more") == 0 || strcmp(way, "deaf") == 0)
        grow("more");
    if (strcmp(way, "abort") == 0)
        abort();
    if (strcmp(way, "_exit") == 0)
        _exit(3);
    if (strcmp(way, "quick_exit") == 0)
        quick_exit(4);
    if (strcmp(way, "kill") == 0)
        kill(getpid(), SIGKILL);
    if (strcmp(way, "exec") == 0)
        unsetenv("LD_PRELOAD");
    if (strcmp(way, "exec") == 0 || strcmp(way, "replace") == 0)
        execlp("sleep", "sleep", "0.3", NULL);
    for (;;)
        pause();
}
