/*
 * watched.c: each task of a process may do what the program last said, at any moment, as another
 * process sees it.
 *
 *   watched THREADS
 *
 * The program and its threads free all the time, more than 1 GiB in each state, while the program
 * drops what it has: root, new privileges, files (Landlock), system calls. A second process, the
 * watcher, that keeps its rights, looks at the program's tasks meanwhile: there are none but the
 * program's, and the rights of all are alike. Where the C library changes the tasks one after the
 * other the program says so in `changes`, and the watcher drops what it saw in between. With
 * threads, what a task can set for itself alone is left out.
 *
 * Seen to fail with a heap that has a thread, and beside a library whose free makes a task that
 * lives for a tenth of a millisecond.
 */
#define _GNU_SOURCE

#include "check.h"

#include <grp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "refuse.h"

enum {
    HELD_BYTES = 256 * 1024 * 1024, /* in main; as much in all threads */
    ROUNDS_MIN = 4,
    LOOKS_MIN = 100,
    NOBODY = 65534,
    THREADS_MAX = 8,
    RIGHTS_MAX = 1024
};

/* Shared. Odd `changes`: the program's own tasks are about to change. `looks`: since they did. */
static struct {
    _Atomic unsigned changes, tasks, looks;
    _Atomic bool is_over;
} *shared;

static _Atomic bool threads_are_over;
static pthread_barrier_t started;

struct look {
    const char *folder;
    unsigned count, odd;
    char first[RIGHTS_MAX], other[RIGHTS_MAX];
};

static void look_at(const char *task, void *context)
{
    struct look *look = context;
    char rights[RIGHTS_MAX];
    task_rights(look->folder, task, rights, sizeof rights);
    if (look->count++ == 0)
        strcpy(look->first, rights);
    else if (strcmp(look->first, rights) != 0) {
        strcpy(look->other, rights);
        look->odd++;
    }
}

static void watch(pid_t program)
{
    char folder[64];
    static struct look look;
    snprintf(folder, sizeof folder, "/proc/%d/task", (int)program);
    while (!shared->is_over && getppid() == program) {
        look = (struct look){.folder = folder};
        unsigned changes = shared->changes, tasks = shared->tasks;
        tasks_visit_in(folder, look_at, &look);
        if (changes % 2 != 0 || changes != shared->changes)
            continue;
        CHECK(look.count == tasks, "there are %u tasks, of which %u are the program's", look.count,
              tasks);
        CHECK(look.odd == 0, "a task has %sand the first %s", look.other, look.first);
        shared->looks++;
    }
    _exit(0);
}

static void change_begin(void)
{
    shared->changes++;
}

static void change_end(unsigned tasks)
{
    shared->tasks = tasks;
    shared->looks = 0;
    shared->changes++;
}

static void free_much(size_t held)
{
    static const size_t sizes[] = {120, 4000, 100000, 3000000};
    void **blocks = book(held / 120 * sizeof *blocks);
    for (size_t turn = 0; turn < 4; turn++) {
        size_t size = sizes[turn], used = held / size;
        for (size_t i = 0; i < used; i++) {
            CHECK((blocks[i] = malloc(size)) != NULL, "no memory");
            memset(blocks[i], 1, size);
        }
        for (size_t i = 0; i < used; i++)
            free(blocks[i]);
    }
    munmap(blocks, held / 120 * sizeof *blocks);
}

static void *work(void *held)
{
    pthread_barrier_wait(&started);
    while (!threads_are_over)
        free_much(*(size_t *)held);
    return NULL;
}

/* Frees until the watcher has seen enough. */
static void go_on(pid_t watcher)
{
    for (unsigned round = 0; round < ROUNDS_MIN || shared->looks < LOOKS_MIN; round++) {
        free_much(HELD_BYTES / 4);
        int status;
        CHECK(waitpid(watcher, &status, WNOHANG) == 0, "the watcher has ended");
    }
}

static void drop_root(void)
{
    if (geteuid() == 0)
        CHECK(setgroups(0, NULL) == 0 && setgid(NOBODY) == 0 && setuid(NOBODY) == 0, "root stays");
}

/* Landlock: no file may be made any more; only where the kernel has it. */
static void restrict_files(void)
{
#ifdef SYS_landlock_create_ruleset
    uint64_t handled = 1 << 8; /* LANDLOCK_ACCESS_FS_MAKE_REG */
    long rules = syscall(SYS_landlock_create_ruleset, &handled, sizeof handled, 0);
    if (rules >= 0) {
        CHECK(syscall(SYS_landlock_restrict_self, rules, 0) == 0, "Landlock refuses");
        close((int)rules);
    }
#endif
}

static void forbid_new_privileges(void)
{
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no no_new_privs");
}

static void forbid_tasks(void)
{
    filter_calls(SYS_clone, SYS_clone3, SECCOMP_RET_KILL_PROCESS);
}

static void change(void (*drop)(void), unsigned tasks, pid_t watcher)
{
    change_begin();
    drop();
    change_end(tasks);
    go_on(watcher);
}

static void start_threads(pthread_t ids[], unsigned count, size_t *held)
{
    pthread_barrier_init(&started, NULL, count + 1);
    for (unsigned i = 0; i < count; i++)
        CHECK(pthread_create(&ids[i], NULL, work, held) == 0, "no thread");
    pthread_barrier_wait(&started);
}

int main(int count, char **words)
{
    check_is_calmalloc();
    check_time_limit(200);
    unsigned threads = count > 1 ? (unsigned)strtoul(words[1], NULL, 10) : 0;
    size_t held = threads == 0 ? 0 : HELD_BYTES / 4 / threads;
    pthread_t ids[THREADS_MAX];
    pid_t program = getpid();
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED && threads <= THREADS_MAX, "no shared memory");
    change_begin();
    pid_t watcher = fork();
    CHECK(watcher >= 0, "no child");
    if (watcher == 0)
        watch(program);
    start_threads(ids, threads, &held);
    change_end(threads + 1);
    go_on(watcher);
    change(drop_root, threads + 1, watcher);
    change_begin();
    threads_are_over = true;
    for (unsigned i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
    while (task_count() > 1) /* a thread that was joined may not have left the kernel yet */
        sleep_ms(1);
    change_end(1);
    if (threads == 0) {
        change(forbid_new_privileges, 1, watcher);
        change(restrict_files, 1, watcher);
        change(forbid_tasks, 1, watcher);
    }
    shared->is_over = true;
    check_child_succeeds(watcher, "the watcher");
    check_heap();
    return 0;
}
