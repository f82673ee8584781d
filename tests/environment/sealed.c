/*
 * sealed.c: a program that allows itself nothing but the system calls that docs/sandboxes.md says
 * the heap makes, and is killed at any other, goes on to allocate, grow, free and trim.
 *
 *   sealed THREADS [mask] [trim] [arguments]
 *
 * Threads have begun by then and have used the heap. `mask` allows rt_sigprocmask, too, and half of
 * them use it for the first time; `trim` trims in the end. `arguments` refuses these calls with
 * other arguments than those of the C library's own malloc, as sandboxes do that are written for
 * it.
 */
#define _GNU_SOURCE

#include "check.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "refuse.h"

enum { THREADS_MAX = 16, BLOCKS = 3000, ROUNDS = 6, RULES_MAX = 96, PAIRS = 2 };

static pthread_barrier_t sealed, done;

static const unsigned allowed[] = {SYS_mmap,     SYS_munmap, SYS_mremap,     SYS_madvise,
                                   SYS_mprotect, SYS_futex,  SYS_exit_group, SYS_write};

/* A call that is allowed where so many of its arguments are these. */
struct rule {
    unsigned call, pairs, argument[PAIRS], value[PAIRS];
};

enum { ANYWHERE = MAP_PRIVATE | MAP_ANONYMOUS, BOTH = PROT_READ | PROT_WRITE };

static const struct rule with_arguments[] = {
    {SYS_mmap, 2, {2, 3}, {BOTH, ANYWHERE}},
    {SYS_mmap, 2, {2, 3}, {PROT_NONE, ANYWHERE | MAP_NORESERVE}},
    {SYS_mremap, 1, {3}, {MREMAP_MAYMOVE}},
    {SYS_madvise, 1, {2}, {MADV_DONTNEED}},
    {SYS_mprotect, 1, {2}, {BOTH}},
};

static struct sock_filter filter[RULES_MAX];
static unsigned short used;

static void answer(unsigned verdict)
{
    filter[used++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, verdict);
}

static void look(size_t offset)
{
    filter[used++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offset);
}

static void if_it_is(unsigned value, unsigned char else_skip)
{
    filter[used++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, else_skip);
}

static void allow_by(const struct rule *rule)
{
    look(offsetof(struct seccomp_data, nr));
    if_it_is(rule->call, (unsigned char)(2 * rule->pairs + 1));
    for (unsigned i = 0; i < rule->pairs; i++) {
        look(offsetof(struct seccomp_data, args[rule->argument[i]]));
        if_it_is(rule->value[i], (unsigned char)(2 * (rule->pairs - i) - 1));
    }
    answer(SECCOMP_RET_ALLOW);
}

/* Kills for all but `allowed`, the last two of which are the test's, and the signal mask, in all
 * threads. */
static bool seal(bool has_mask, bool has_arguments)
{
    unsigned rules = has_arguments ? sizeof with_arguments / sizeof *with_arguments : 0;
    for (unsigned i = 0; i < rules; i++)
        allow_by(&with_arguments[i]);
    look(offsetof(struct seccomp_data, nr));
    for (unsigned i = 0; i < rules; i++) {
        if_it_is(with_arguments[i].call, 1);
        answer(SECCOMP_RET_ERRNO | EPERM);
    }
    for (unsigned i = 0; i < sizeof allowed / sizeof *allowed; i++) {
        if_it_is(allowed[i], 1);
        answer(SECCOMP_RET_ALLOW);
    }
    if (has_mask) {
        if_it_is(SYS_rt_sigprocmask, 1);
        answer(SECCOMP_RET_ALLOW);
    }
    answer(SECCOMP_RET_KILL_PROCESS);
    struct sock_fprog program = {used, filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

static void use_small(void)
{
    static _Thread_local void *blocks[BLOCKS];
    for (size_t round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < BLOCKS; i++) {
            size_t size = 1 + i * 7919 % 4000;
            CHECK((blocks[i] = i % 3 == 0 ? calloc(1, size) : malloc(size)) != NULL, "no memory");
            block_sign(blocks[i], size);
        }
        for (size_t i = 0; i < BLOCKS; i++)
            free(blocks[i]);
    }
}

static void use_large(void)
{
    for (size_t round = 0; round < ROUNDS; round++) {
        char *grown = malloc(MIB);
        for (size_t size = MIB; size <= 64 * MIB; size *= 2) {
            CHECK((grown = realloc(grown, size)) != NULL, "no memory");
            memset(grown, 1, size);
        }
        CHECK((grown = realloc(grown, 100)) != NULL, "no memory");
        free(grown);
        void *aligned = aligned_alloc(2 * MIB, 4 * MIB);
        CHECK(aligned != NULL, "no memory");
        free(aligned);
    }
}

static void use(void)
{
    use_small();
    use_large();
    CHECK(hidden(malloc(SIZE_MAX / 4)) == NULL, "more than there is");
}

static void *work(void *has_used)
{
    if (has_used != NULL)
        use_small();
    pthread_barrier_wait(&sealed);
    pthread_barrier_wait(&sealed);
    use();
    pthread_barrier_wait(&done);
    pthread_barrier_wait(&done); /* for ever: its end would take calls of the C library's */
    return has_used;
}

static bool is_said(int count, char **words, const char *word)
{
    for (int i = 2; i < count; i++)
        if (strcmp(words[i], word) == 0)
            return true;
    return false;
}

int main(int count, char **words)
{
    check_is_calmalloc();
    unsigned threads = count > 1 ? (unsigned)strtoul(words[1], NULL, 10) : 0;
    pthread_t id;
    pthread_barrier_init(&sealed, NULL, threads + 1);
    pthread_barrier_init(&done, NULL, threads + 1);
    bool has_mask = is_said(count, words, "mask");
    for (size_t i = 0; i < threads; i++) {
        bool has_used = !has_mask || i % 2 == 0;
        CHECK(pthread_create(&id, NULL, work, has_used ? &sealed : NULL) == 0, "no thread");
    }
    pthread_barrier_wait(&sealed);
    if (!seal(has_mask, is_said(count, words, "arguments")))
        check_skip("no filters of system calls here");
    pthread_barrier_wait(&sealed);
    use();
    if (is_said(count, words, "trim"))
        malloc_trim(0);
    pthread_barrier_wait(&done);
    _exit(0);
}
