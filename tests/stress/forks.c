/*
 * forks.c: forks in the middle of the work of other threads; the child's heap is whole and goes on.
 *
 * The child checks every block of the thread that forked, verifies the heap, works on, forks once
 * more, and frees everything. A child that hangs is killed by its alarm, and that is a failure.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arguments.h"
#include "calmalloc/calmalloc.h"

enum { THREADS = 3, FORK_STEPS = 60, CHILD_SECONDS = 60, MIB = 1024 * 1024 };

static _Atomic bool is_over;
static struct oracle *oracles[THREADS];
static struct mailbox mailbox;

static void *work(void *argument)
{
    while (!atomic_load(&is_over))
        oracle_steps(argument, 64);
    return NULL;
}

static void verify(void)
{
    const char *verdict = calm_verify();
    if (verdict != NULL)
        stress_fail("calm_verify in a child: %s", verdict);
}

static void wait_for(pid_t child)
{
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) ||
        WEXITSTATUS(status) != 0)
        stress_fail("a child ended with status 0x%x", (unsigned)status);
}

static void work_in_child(struct oracle *oracle)
{
    alarm((unsigned)arguments_environment("CALM_STRESS_CHILD_SECONDS", CHILD_SECONDS));
    oracle_check(oracle);
    verify();
    oracle->mailbox = NULL; /* blocks of threads that are not here stay where they are */
    oracle_steps(oracle, FORK_STEPS * 4);
}

static void end_child(struct oracle *oracle)
{
    oracle_end(oracle);
    calm_trim();
    verify();
    _exit(0);
}

static void be_child(struct oracle *oracle)
{
    work_in_child(oracle);
    pid_t grandchild = fork();
    if (grandchild == 0) {
        work_in_child(oracle);
        end_child(oracle);
    }
    wait_for(grandchild);
    end_child(oracle);
}

static void run(uint64_t seed, uint64_t forks)
{
    pthread_t threads[THREADS];
    atomic_store(&is_over, false);
    for (unsigned i = 0; i < THREADS; i++) {
        oracle_begin(oracles[i], seed * THREADS + i);
        oracles[i]->mailbox = &mailbox;
        oracles[i]->live_max = 4 * (size_t)MIB;
        oracles[i]->size_max = seed % 2 == 0 ? 256 : 100000;
        if (i > 0 && pthread_create(&threads[i], NULL, work, oracles[i]) != 0)
            stress_fail("pthread_create failed");
    }
    for (uint64_t i = 0; i < forks; i++) {
        oracle_steps(oracles[0], FORK_STEPS);
        pid_t child = fork();
        if (child == 0)
            be_child(oracles[0]);
        wait_for(child);
    }
    atomic_store(&is_over, true);
    for (unsigned i = 1; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < THREADS; i++)
        oracle_end(oracles[i]);
    mailbox_end(&mailbox);
    stress_check_heap(0, 100, 128 * (size_t)MIB);
}

int main(int argc, char **argv)
{
    struct arguments arguments = arguments_read(argc, argv, 2, 60);
    for (unsigned i = 0; i < THREADS; i++)
        oracles[i] = malloc(sizeof *oracles[i]);
    for (uint64_t i = 0; i < arguments.seeds; i++) {
        arguments_repro(&arguments, arguments.seed + i);
        run(arguments.seed + i, arguments.steps);
    }
    return 0;
}
