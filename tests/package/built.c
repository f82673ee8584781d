/*
 * built.c: a program on the one-file form, for each way to build it.
 *
 * Threads, a child of vfork, and BLOCKS blocks of BLOCK_BYTES that it holds while somebody looks
 * at it from outside. It goes on asking for memory until its standard input ends.
 */
#include "calmalloc.h"

#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 5000, BLOCK_BYTES = 1000, ROUNDS = 20, THREADS = 4 };

static void *held[BLOCKS];

static void *work(void *unused)
{
    static _Thread_local unsigned char *own[BLOCKS];
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            own[i] = calm_calloc(1, (size_t)i / 10 + 1);
            if (own[i] == NULL || own[i][i / 10] != 0)
                return own;
            memset(own[i], round + 1, (size_t)i / 10 + 1);
        }
        for (int i = 0; i < BLOCKS; i++) {
            own[i] = calm_realloc(own[i], (size_t)i / 5 + 1);
            if (own[i] == NULL || own[i][i / 10] != round + 1)
                return own;
        }
        for (int i = 0; i < BLOCKS; i++)
            calm_free(own[i]);
    }
    return unused;
}

static int has_a_child(void)
{
    int status = -1;
    pid_t child = vfork();
    if (child == 0)
        _exit(7);
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7;
}

int main(void)
{
    pthread_t threads[THREADS];
    int is_sound = has_a_child();
    for (int i = 0; i < THREADS; i++)
        is_sound &= pthread_create(&threads[i], NULL, work, NULL) == 0;
    for (int i = 0; i < THREADS; i++) {
        void *wrong = NULL;
        is_sound &= pthread_join(threads[i], &wrong) == 0 && wrong == NULL;
    }
    for (int i = 0; i < BLOCKS; i++)
        is_sound &= (held[i] = calm_malloc(BLOCK_BYTES)) != NULL;
    is_sound &= calm_verify() == NULL;
    if (!is_sound || write(1, "ready\n", 6) != 6)
        return 1;
    struct pollfd input = {.fd = 0, .events = POLLIN};
    while (poll(&input, 1, 1) == 0)
        calm_free(calm_malloc(BLOCK_BYTES));
    for (int i = 0; i < BLOCKS; i++)
        calm_free(held[i]);
    return calm_verify() != NULL;
}
