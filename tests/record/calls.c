/*
 * calls.c: a program whose calls are known. Threads make seeded random calls and hand blocks to
 * each other; at the end the program prints what it asked for, thread by thread, as the recording
 * should list it.
 *
 *   calls SEED THREADS CALLS       prints "THREAD-CONSTANT function size align" lines, by thread
 *   calls fork | handler | threads | half | slow | loop | exec | many [CALLS]
 */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 200, HANDED = 64, THREADS_MAX = 16, NOTE_BYTES = 64 };

struct note {
    const char *function;
    size_t bytes, align;
};

struct owner {
    uint64_t random;
    unsigned index, calls, note_count;
    struct note *notes;
    void *blocks[BLOCKS];
};

static _Atomic(void *) handed[HANDED];
static struct owner owners[THREADS_MAX];

static uint64_t next(struct owner *owner)
{
    owner->random = owner->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return owner->random >> 33;
}

/* What no allocator of ours sees. */
static void *map(size_t bytes)
{
    void *start = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return start == MAP_FAILED ? NULL : start;
}

static void note(struct owner *owner, const char *function, size_t bytes, size_t align)
{
    owner->notes[owner->note_count++] = (struct note){function, bytes, align};
}

static void give(struct owner *owner, void *block)
{
    if (block == NULL)
        return;
    note(owner, "free", 0, 0);
    free(block);
}

static void step(struct owner *owner)
{
    unsigned place = (unsigned)next(owner) % BLOCKS, how = (unsigned)next(owner) % 16;
    size_t bytes = 1 + next(owner) % (next(owner) % 50 == 0 ? 300000 : 700);
    size_t align = (size_t)1 << (3 + next(owner) % 10);
    void **block = &owner->blocks[place];
    if (how < 3 && *block != NULL) {
        note(owner, "realloc", bytes, 1);
        *block = realloc(*block, bytes);
        return;
    }
    if (how < 7) {
        give(owner, atomic_exchange(&handed[next(owner) % HANDED], *block));
        *block = NULL;
        return;
    }
    give(owner, *block);
    if (how < 12) {
        note(owner, "malloc", bytes, 1);
        *block = malloc(bytes);
    } else if (how < 14) {
        note(owner, "calloc", bytes * 2, 1);
        *block = calloc(2, bytes);
    } else if (how == 14) {
        note(owner, "aligned", bytes, align);
        *block = memalign(align, bytes);
    } else {
        note(owner, "aligned", bytes, align);
        if (posix_memalign(block, align, bytes) != 0)
            abort();
    }
}

static void *work(void *argument)
{
    struct owner *owner = argument;
    for (unsigned i = 0; i < owner->calls; i++)
        step(owner);
    for (unsigned i = 0; i < BLOCKS; i++)
        give(owner, owner->blocks[i]);
    return NULL;
}

static int run(unsigned seed, unsigned count, unsigned calls)
{
    pthread_t ids[THREADS_MAX];
    static char out[1 << 16];
    setvbuf(stdout, out, _IOFBF, sizeof out);
    for (unsigned i = 0; i < count; i++) {
        owners[i] = (struct owner){.random = seed * 7919 + i, .index = i, .calls = calls};
        owners[i].notes = map((2 * calls + 2 * BLOCKS) * sizeof(struct note));
        if (owners[i].notes == NULL || pthread_create(&ids[i], NULL, work, &owners[i]) != 0)
            return 1;
    }
    for (unsigned i = 0; i < count; i++)
        pthread_join(ids[i], NULL);
    for (unsigned i = 0; i < count; i++)
        for (unsigned n = 0; n < owners[i].note_count; n++)
            printf("%u %s %zu %zu\n", i, owners[i].notes[n].function, owners[i].notes[n].bytes,
                   owners[i].notes[n].align);
    return 0;
}

static void make_pairs(unsigned count, size_t bytes)
{
    for (unsigned i = 0; i < count; i++)
        free(malloc(bytes));
}

static int fork_once(void)
{
    make_pairs(1000, 111);
    pid_t child = fork();
    make_pairs(1000, child == 0 ? 222 : 333);
    if (child == 0)
        _exit(0);
    int status;
    return waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
}

static void in_handler(int number)
{
    (void)number;
    make_pairs(1, 444);
}

/* Such a handler may come in the middle of our own call: with an allocator that bears it, the
 * recorder has to. */
static int be_interrupted(void)
{
    signal(SIGALRM, in_handler);
    ualarm(50, 50);
    make_pairs(500000, 111);
    ualarm(0, 0);
    return 0;
}

static void *short_life(void *unused)
{
    (void)unused;
    make_pairs(10, 555);
    return NULL;
}

static int make_threads(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        pthread_t id;
        if (pthread_create(&id, NULL, short_life, NULL) != 0)
            return 1;
        pthread_join(id, NULL);
    }
    return 0;
}

/* Reads all of a large block, writes a part of it, and lives on for a while. */
static int half_touch(void)
{
    enum { ALL = 64 << 20, PART = 8 << 20, PAGE = 4096 };
    char *block = calloc(1, ALL);
    unsigned sum = 0;
    for (size_t at = 0; block != NULL && at < ALL; at += PAGE)
        sum += (unsigned char)*(volatile char *)(block + at);
    for (size_t at = 0; block != NULL && at < PART; at += PAGE)
        *(volatile char *)(block + at) = 1;
    usleep(400000);
    return block != NULL && sum == 0 ? 0 : 1;
}

int main(int count, char **words)
{
    const char *what = count > 1 ? words[1] : "";
    if (count == 4)
        return run((unsigned)atoi(words[1]), (unsigned)atoi(words[2]), (unsigned)atoi(words[3]));
    if (strcmp(what, "fork") == 0)
        return fork_once();
    if (strcmp(what, "handler") == 0)
        return be_interrupted();
    if (strcmp(what, "threads") == 0)
        return make_threads(3000);
    if (strcmp(what, "half") == 0)
        return half_touch();
    if (strcmp(what, "many") == 0) {
        make_pairs(count > 2 ? (unsigned)atoi(words[2]) : 1000000, 100);
        return 0;
    }
    if (strcmp(what, "loop") == 0 || strcmp(what, "slow") == 0) {
        make_pairs(100, 666);
        if (write(1, "ready\n", 6) != 6)
            return 1;
        for (;;) {
            make_pairs(what[0] == 'l' ? 1000 : 1, 666);
            usleep(1000);
        }
    }
    if (strcmp(what, "exec") == 0) {
        make_pairs(1000, 777);
        execl("/proc/self/exe", "calls", "many", "1000", (char *)NULL);
    }
    return 2;
}
