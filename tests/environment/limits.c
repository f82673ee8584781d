/*
 * limits.c: limits that a program sets while it runs mean what they mean without this library.
 *
 *   limits late_space | late_data | lock_current | lock_future | overcommit | sparse | always |
 *          strict | returned | late_prctl | refused | locks_new | locks_old | own_space |
 *          own_data | own_early | own_again
 *
 * The kernel's own answer, to a mapping of the same size, is the oracle where there is one.
 *
 * Seen to fail, all but late_data, with a heap that reserves eight times the machine's memory and
 * names what it commits; strict with tables that grow by 64 MiB, and with a trim that gives no
 * addresses back; returned with a purger that unmaps nothing; refused with a `realloc` that takes
 * addresses in parts before the kernel was asked for all; locks_new and locks_old with a guard that
 * is lengthened with the locks that it has; own_space, own_data and own_early with a heap that
 * unmaps nothing until it is refused, and own_early with one that does not ask for limits at its
 * start; own_again with one that keeps all that it expects to be taken again.
 */
#define _GNU_SOURCE

#include "check.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "refuse.h"

#define GIB (1024 * MIB)

enum { BLOCKS_SPARSE = 100, LOCK_MIB = 8, BLOCKS_STRICT = 100000 };

/* Bytes in blocks of `size` that can be had and written, at most `most`. They stay. */
static size_t take(size_t size, size_t most)
{
    size_t total = 0;
    while (total < most) {
        errno = 0;
        void *block = malloc(size);
        CHECK(block != NULL || errno == ENOMEM, "out of memory is errno %d", errno);
        if (block == NULL)
            break;
        memset(block, 1, size);
        total += size;
    }
    return total;
}

static void limit(int resource, size_t bytes)
{
    struct rlimit now = {bytes, bytes};
    if (setrlimit(resource, &now) != 0)
        check_skip("this user may not set the limit");
}

static void *idle(void *argument)
{
    return argument;
}

static void check_space(void)
{
    limit(RLIMIT_AS, GIB);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, idle, NULL) == 0, "no thread under a limit of 1 GiB");
    pthread_join(thread, NULL);
    void *library = dlopen("libresolv.so.2", RTLD_NOW);
    if (library == NULL && strstr(dlerror(), "No such file") == NULL)
        CHECK(false, "nothing can be loaded under a limit of 1 GiB");
    CHECK(malloc(3 * GIB) == NULL, "3 GiB are granted under a limit of 1 GiB");
    size_t total = take(MIB, 2 * GIB);
    CHECK(total < GIB && total > GIB / 10 * 8, "%zu MiB are granted under a limit of 1 GiB",
          total / MIB);
}

static void check_data(void)
{
    limit(RLIMIT_DATA, 256 * MIB);
    CHECK(malloc(GIB) == NULL, "1 GiB is granted under a limit of 256 MiB");
    size_t total = take(10000, GIB);
    CHECK(total < 256 * MIB && total > 200 * MIB, "%zu MiB are granted under a limit of 256 MiB",
          total / MIB);
}

static void become_ordinary(void)
{
    struct rlimit now;
    if (getuid() == 0 && setresuid(65534, 65534, 65534) != 0)
        check_skip("cannot become an ordinary user");
    getrlimit(RLIMIT_MEMLOCK, &now);
    if (now.rlim_max < LOCK_MIB * MIB)
        check_skip("this user may lock less");
    limit(RLIMIT_MEMLOCK, LOCK_MIB * MIB);
}

/* Who locks what there is may have more than that. */
static void check_lock_current(void)
{
    become_ordinary();
    CHECK(mlockall(MCL_CURRENT) == 0, "a process of %zu KiB may not be locked within %d MiB",
          virtual_bytes() / KIB, LOCK_MIB);
    CHECK(take(10000, 8 * LOCK_MIB * MIB) >= 8 * LOCK_MIB * MIB, "small blocks are refused");
    CHECK(take(8 * LOCK_MIB * MIB, 1) > 0, "a large block is refused");
    munlockall();
    CHECK(take(10000, 8 * LOCK_MIB * MIB) >= 8 * LOCK_MIB * MIB, "small blocks are refused");
}

/* What comes is locked too: until the limit. */
static void check_lock_future(void)
{
    become_ordinary();
    CHECK(mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) == 0,
          "a process of %zu KiB may not be locked within %d MiB", virtual_bytes() / KIB, LOCK_MIB);
    CHECK(malloc(2 * LOCK_MIB * MIB) == NULL, "more is granted than may be locked");
    munlockall();
    CHECK(take(10000, 8 * LOCK_MIB * MIB) >= 8 * LOCK_MIB * MIB, "small blocks are refused");
}

/* What is locked of 100 MiB that come after mlockall(flags). */
static size_t locked_after(int flags)
{
    if (mlockall(flags) != 0)
        check_skip("this user may not lock memory");
    size_t before = locked_bytes();
    CHECK(take(10000, 50 * MIB) > 0 && take(MIB, 50 * MIB) > 0, "no memory");
    return locked_bytes() - before;
}

static void check_locks_new(void)
{
    size_t locked = locked_after(MCL_FUTURE);
    CHECK(locked > 95 * MIB, "%zu of 100 MiB are locked after MCL_FUTURE", locked / MIB);
}

static void check_locks_old(void)
{
    size_t locked = locked_after(MCL_CURRENT);
    CHECK(locked < 5 * MIB, "%zu of 100 MiB are locked after MCL_CURRENT", locked / MIB);
}

static bool kernel_grants(size_t size)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at != MAP_FAILED)
        munmap(at, size);
    return at != MAP_FAILED;
}

static void check_grants(size_t most)
{
    for (size_t size = 64 * MIB; size <= most; size *= 2) {
        bool is_granted = kernel_grants(size);
        void *block = malloc(size);
        CHECK((block != NULL) == is_granted, "%zu MiB are %s, the kernel says otherwise",
              size / MIB, block != NULL ? "granted" : "refused");
        free(block);
    }
}

static void check_overcommit(void)
{
    check_grants(8192 * GIB);
}

/* Where vm.overcommit_memory is 1. The tables of a block of this size take 85 MiB. */
static void check_always(void)
{
    check_grants(1024 * GIB);
}

static void check_sparse(void)
{
    size_t size = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE) / 4;
    if (!kernel_grants(size))
        check_skip("this kernel commits no more than it has");
    for (int i = 0; i < BLOCKS_SPARSE; i++) {
        char *block = calloc(size, 1);
        CHECK(block != NULL, "block %d of %d of a quarter of the memory is refused", i,
              BLOCKS_SPARSE);
        CHECK(block[0] == 0 && block[size - 1] == 0, "dirty memory");
        block[0] = block[size / 2] = 1;
    }
}

/* Where vm.overcommit_memory is 2: blocks, the tables for them and no more are private and
 * writable, which is what counts there. The pages are not touched, and root keeps what is set aside
 * for it. */
static void check_strict(void)
{
    static void *blocks[BLOCKS_STRICT];
    if (getuid() == 0 && setresuid(65534, 65534, 65534) != 0)
        check_skip("cannot become an ordinary user");
    free(malloc(MIB));
    size_t before = data_bytes(), granted = 0, count = 0;
    CHECK(before < 8 * MIB, "%zu MiB are committed at the start", before / MIB);
    for (size_t size = GIB; size >= MIB; size /= 4)
        while (count < BLOCKS_STRICT && (blocks[count] = malloc(size)) != NULL) {
            count++;
            granted += size;
        }
    size_t after = data_bytes();
    bool is_full = !kernel_grants(256 * MIB);
    for (size_t i = 0; i < count; i++)
        free(blocks[i]);
    malloc_trim(0);
    size_t last = data_bytes();
    CHECK(is_full, "the kernel grants 256 MiB, malloc no 1 MiB; it has %zu", granted / MIB);
    CHECK(after - before < granted + granted / 50 + 32 * MIB, "%zu MiB are committed for %zu",
          after / MIB, granted / MIB);
    CHECK(last < before + 64 * MIB, "of %zu MiB that were freed %zu stay committed", granted / MIB,
          last / MIB);
}

/* What a program frees leaves its address space, without a trim, once it works on for longer than
 * purge_delay_ms: its own mappings and threads may want it, and a kernel that does not overcommit
 * counts it. */
static void check_returned(void)
{
    enum { BLOCKS = 2000, PIECE = 256 * 1024, WORK_MS = 3000 };
    static const size_t LEFT = 160 * MIB;
    static void *blocks[BLOCKS];
    size_t before = data_bytes();
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            CHECK((blocks[i] = malloc(PIECE)) != NULL, "no memory in round %d", round);
            memset(blocks[i], 1, PIECE);
        }
        CHECK(data_bytes() > before + BLOCKS / 2 * PIECE, "blocks without pages");
        for (int i = 0; i < BLOCKS; i++)
            free(blocks[i]);
        for (int ms = 0; ms < WORK_MS && data_bytes() > before + LEFT; ms++) {
            for (int i = 0; i < 20; i++)
                free(memset(malloc(100000 + 64 * (size_t)i), 1, 100000));
            usleep(1000);
        }
        CHECK(data_bytes() <= before + LEFT, "%zu MiB are committed, %zu were at the start",
              data_bytes() / MIB, before / MIB);
    }
}

/* Frees blocks with `total` bytes, or as many as there are, and at once maps most of that. */
static void check_own(size_t total)
{
    enum { SIZE = 300 * 1024 };
    static void *blocks[GIB / SIZE];
    size_t count = 0;
    while (count * SIZE < total && (blocks[count] = malloc(SIZE)) != NULL)
        memset(blocks[count++], 1, SIZE);
    size_t own = count * SIZE / 8 * 5;
    CHECK(mmap(NULL, own, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED,
          "the limit leaves %zu MiB", own / MIB);
    for (size_t i = 0; i < count; i++)
        free(blocks[i]);
    CHECK(mmap(NULL, own, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED,
          "%zu MiB were freed, and the program may not map %zu", count * SIZE / MIB, own / MIB);
}

static void check_own_space(void)
{
    limit(RLIMIT_AS, virtual_bytes() + 300 * MIB);
    check_own(GIB / 2);
}

static void check_own_data(void)
{
    limit(RLIMIT_DATA, data_bytes() + 300 * MIB);
    check_own(GIB / 2);
}

/* The limit is there when the heap starts, and no request is refused. */
static void check_own_early(void)
{
    check_own(400 * MIB);
}

/* Fills the limit and frees all, in turn: what the program is seen to take again is more each
 * time. */
static void check_own_again(void)
{
    enum { SIZE = 9000, LIMIT = 64 * MIB, TURNS = 4 };
    limit(RLIMIT_AS, virtual_bytes() + LIMIT);
    for (unsigned turn = 0; turn < TURNS; turn++) {
        void **last = NULL, **block;
        while ((block = malloc(SIZE)) != NULL) {
            memset(block, 1, SIZE);
            *block = (void *)last;
            last = block;
        }
        for (; last != NULL; last = block) {
            block = (void **)*last;
            free(last);
        }
        void *own = mmap(NULL, LIMIT / 8 * 3, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(own != MAP_FAILED, "in turn %u all was freed, and 24 MiB are refused", turn);
        munmap(own, LIMIT / 8 * 3);
    }
}

/* Requests that the limit refuses use up none of what the limit allows. */
static void check_refused(void)
{
    enum { CALLS = 50 };
    static const size_t sizes[] = {300 * MIB, GIB, 12 * GIB, 64 * GIB, 64 * 1024 * GIB};
    char *small = malloc(1000), *large = malloc(100000);
    CHECK(small != NULL && large != NULL, "no memory");
    limit(RLIMIT_AS, 256 * MIB);
    size_t before = virtual_bytes();
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int call = 0; call < CALLS; call++) {
            size_t size = sizes[i] + (size_t)call * MIB;
            CHECK(malloc(size) == NULL && calloc(1, size) == NULL, "%zu bytes are granted", size);
            CHECK(realloc(hidden(small), size) == NULL, "%zu bytes are granted", size);
            CHECK(realloc(hidden(large), size) == NULL, "%zu bytes are granted", size);
            CHECK(aligned_alloc(MIB, size) == NULL, "%zu bytes are granted", size);
        }
    CHECK(virtual_bytes() <= before + 4 * MIB, "refused requests took %zu KiB of addresses",
          (virtual_bytes() - before) / KIB);
    CHECK(take(150 * MIB, 1) > 0, "150 of 256 MiB are refused");
    check_heap();
}

/* The filter ends the program. */
static void check_late_prctl(void)
{
    if (!filter_calls(SYS_prctl, SYS_prctl, SECCOMP_RET_KILL_PROCESS))
        check_skip("no filters of system calls here");
    CHECK(take(48, 20 * MIB) > 0 && take(100000, 200 * MIB) > 0, "no memory");
    char *block = malloc(64 * MIB), *fence = malloc(64 * MIB);
    CHECK(block != NULL && fence != NULL, "no memory");
    memset(block, 1, 64 * MIB);
    block = realloc(block, 200 * MIB);
    CHECK(block != NULL && block[64 * MIB - 1] == 1, "realloc");
    free(block);
    free(fence);
    malloc_trim(0);
    check_heap();
}

int main(int count, char **words)
{
    static const struct {
        const char *name;
        void (*check)(void);
    } modes[] = {
        {"late_space", check_space},
        {"late_data", check_data},
        {"lock_current", check_lock_current},
        {"lock_future", check_lock_future},
        {"overcommit", check_overcommit},
        {"sparse", check_sparse},
        {"always", check_always},
        {"strict", check_strict},
        {"returned", check_returned},
        {"late_prctl", check_late_prctl},
        {"refused", check_refused},
        {"locks_new", check_locks_new},
        {"locks_old", check_locks_old},
        {"own_space", check_own_space},
        {"own_data", check_own_data},
        {"own_early", check_own_early},
        {"own_again", check_own_again},
    };
    check_is_calmalloc();
    check_time_limit(60);
    CHECK(count == 2, "which limit?");
    if (strcmp(words[1], "own_early") == 0)
        check_is_limited_to(GIB / 2, words);
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++)
        if (strcmp(words[1], modes[i].name) == 0) {
            modes[i].check();
            return 0;
        }
    CHECK(false, "no limit is called %s", words[1]);
}
