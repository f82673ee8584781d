/*
 * one_task.c: a process has the tasks that the C library knows, at any moment, and none keeps what
 * the program gave up.
 *
 *   one_task THREADS
 *
 * The program frees 1 GiB, in main and in threads that ask for a scheduler and one CPU, and drops
 * what it can: root, new privileges, system calls and files. After each step each task has the same
 * credentials and limits, and there are no tasks but the program's; nor is there a handler of a
 * signal, or an open file but the first three. So that the program inherits no other file, it runs
 * itself again.
 *
 * Seen to fail, in what is new here, beside a library that installs a handler, and one that keeps a
 * file open.
 */
#define _GNU_SOURCE

#include "check.h"

#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "refuse.h"

enum {
    PIECES = 16,
    PIECE_BYTES = 64 * 1024 * 1024,
    NOBODY = 65534,
    THREADS_MAX = 8,
    MOMENTS = 40,
    STATUS_MAX = 1024
};

static pthread_barrier_t freed, looked;

static void free_much(void)
{
    static const size_t sizes[] = {120, 4000, 100000, 3000000};
    size_t count = PIECE_BYTES / 4 / 120;
    void **blocks = book(count * sizeof *blocks);
    for (size_t piece = 0; piece < PIECES; piece++) {
        size_t size = sizes[piece % 4], used = PIECE_BYTES / 4 / size;
        for (size_t i = 0; i < used; i++) {
            CHECK((blocks[i] = malloc(size)) != NULL, "no memory");
            memset(blocks[i], 1, size);
        }
        for (size_t i = 0; i < used; i++)
            free(blocks[i]);
    }
}

static void *work(void *argument)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    struct sched_param urgent = {.sched_priority = 50};
    pthread_setaffinity_np(pthread_self(), sizeof one, &one);
    pthread_setschedparam(pthread_self(), SCHED_FIFO, &urgent); /* where it is allowed */
    free_much();
    struct sched_param plain = {.sched_priority = 0};
    pthread_setschedparam(pthread_self(), SCHED_OTHER, &plain);
    pthread_barrier_wait(&freed);
    pthread_barrier_wait(&looked);
    return argument;
}

struct alike {
    size_t count;
    char first[STATUS_MAX];
};

static void compare(const char *task, void *context)
{
    struct alike *alike = context;
    char status[STATUS_MAX];
    task_rights("/proc/self/task", task, alike->count == 0 ? alike->first : status, STATUS_MAX);
    CHECK(alike->count == 0 || strcmp(alike->first, status) == 0, "task %s has %sand the first %s",
          task, status, alike->first);
    alike->count++;
}

static void check_tasks(size_t tasks, const char *when)
{
    for (unsigned moment = 0; moment < MOMENTS; moment++) {
        struct alike alike = {.count = 0};
        tasks_visit(compare, &alike);
        CHECK(alike.count == tasks, "%zu tasks %s, of which %zu are the program's", alike.count,
              when, tasks);
        sleep_ms(5);
    }
}

/* No handler but those of the C library's own two signals, and no open file but the first three. */
static void check_handlers_and_files(void)
{
    const unsigned long of_c_library = 3ul << 31; /* signals 32 and 33: pthread_cancel, setuid */
    char text[8192];
    int file = open("/proc/self/status", O_RDONLY);
    CHECK(file == 3, "the first file that is opened is number %d: another is open", file);
    ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    text[length > 0 ? length : 0] = '\0';
    const char *caught = strstr(text, "SigCgt:");
    CHECK(caught != NULL, "no SigCgt");
    unsigned long handled = strtoul(caught + strlen("SigCgt:"), NULL, 16) & ~of_c_library;
    CHECK(handled == 0, "signals %lx have a handler", handled);
    for (int other = 3; other < 256; other++)
        CHECK(fcntl(other, F_GETFD) < 0, "file %d is open", other);
}

/* Closes what was inherited but the first three, and begins the program once more. */
static void begin_again(char **words)
{
    if (getenv("ONE_TASK_AGAIN") != NULL)
        return;
    for (int file = 3; file < 1024; file++)
        close(file);
    setenv("ONE_TASK_AGAIN", "1", 1);
    execv("/proc/self/exe", words);
    CHECK(false, "no exec");
}

/* Whether it was root and is it no longer. */
static bool drop_root(void)
{
    return geteuid() == 0 && setgroups(0, NULL) == 0 && setgid(NOBODY) == 0 && setuid(NOBODY) == 0;
}

/* Landlock: no file may be made any more; only where the kernel has it. */
static void restrict_files(void)
{
#ifdef SYS_landlock_create_ruleset
    uint64_t handled = 1 << 8; /* LANDLOCK_ACCESS_FS_MAKE_REG */
    long rules = syscall(SYS_landlock_create_ruleset, &handled, sizeof handled, 0);
    if (rules >= 0)
        syscall(SYS_landlock_restrict_self, rules, 0);
#endif
}

int main(int count, char **words)
{
    check_is_calmalloc();
    begin_again(words);
    check_time_limit(200);
    unsigned threads = count > 1 ? (unsigned)strtoul(words[1], NULL, 10) : 0;
    pthread_t ids[THREADS_MAX];
    pthread_barrier_init(&freed, NULL, threads + 1);
    pthread_barrier_init(&looked, NULL, threads + 1);
    for (unsigned i = 0; i < threads; i++)
        CHECK(pthread_create(&ids[i], NULL, work, NULL) == 0, "no thread");
    free_much();
    pthread_barrier_wait(&freed);
    check_tasks(threads + 1, "after much was freed");
    check_handlers_and_files();
    bool was_root = drop_root();
    check_tasks(threads + 1, was_root ? "after root was dropped" : "later");
    pthread_barrier_wait(&looked);
    for (unsigned i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no no_new_privs");
    restrict_files();
    filter_calls(SYS_clone, SYS_clone, SECCOMP_RET_KILL_PROCESS);
    free_much();
    check_tasks(1, "in the sandbox");
    CHECK(!was_root || geteuid() == NOBODY, "root came back");
    check_heap();
    return 0;
}
