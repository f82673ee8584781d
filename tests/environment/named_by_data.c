/*
 * named_by_data.c: with sites=intern, wrappers that copy their input to the stack ask for memory in
 * each way that C has. The input names the site of one caller in every word; none of the others is
 * given an address which that one had.
 */
#define _GNU_SOURCE

#include "check.h"

#include <alloca.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    OBJECTS = 4000,
    TRIES = 2000,
    HELD = 20000,
    ROUNDS = 20,
    KEPT = 5000,
    SHORT = 64,
    LONG = 2048,
    BYTES = 64
};

#define NOT_INLINE __attribute__((noinline))

/* What is on the stack is used, and a call is no jump. */
#define KEEP(pointer) __asm__ volatile("" : "+r"(pointer) : : "memory")

static void *returns_to;

typedef void *(*wrapper)(const char *input, size_t length, size_t bytes);

static void *by_malloc(size_t bytes)
{
    return malloc(bytes);
}

/* A wrapper with a frame as large as its input, around one expression. */
#define WRAPPER(name, expression)                                                                  \
    static NOT_INLINE void *name(const char *input, size_t length, size_t bytes)                   \
    {                                                                                              \
        returns_to = __builtin_extract_return_addr(__builtin_return_address(0));                   \
        char *room = alloca(length);                                                               \
        memcpy(room, input, length);                                                               \
        KEEP(room);                                                                                \
        void *block = expression;                                                                  \
        KEEP(block);                                                                               \
        KEEP(room);                                                                                \
        return block;                                                                              \
    }

static void *moved(size_t bytes)
{
    void *block = realloc(NULL, bytes);
    KEEP(block);
    return block;
}

static void *aligned(size_t bytes)
{
    void *block = NULL;
    CHECK(posix_memalign(&block, 32, bytes) == 0, "no memory");
    return block;
}

WRAPPER(plain, malloc(bytes))
WRAPPER(zeroed, calloc(1, bytes))
WRAPPER(anew, realloc(NULL, bytes))
WRAPPER(at_32, aligned_alloc(32, (bytes + 31) / 32 * 32))
WRAPPER(inner_call, moved(bytes))
WRAPPER(inner_jump, by_malloc(bytes))
WRAPPER(inner_aligned, aligned(bytes))

/* As the C library does it, to a string that is as long. */
static NOT_INLINE void *copied(const char *input, size_t length, size_t bytes)
{
    returns_to = __builtin_extract_return_addr(__builtin_return_address(0));
    char *room = alloca(length), text[LONG];
    memcpy(room, input, length);
    memset(text, 'a', bytes - 1);
    text[bytes - 1] = '\0';
    KEEP(room);
    char *block = strdup(text);
    KEEP(block);
    KEEP(room);
    return block;
}

/* Until as many more were kept. */
static void keep(void *block)
{
    static void *kept[KEPT];
    static unsigned next;
    free(kept[next]);
    kept[next] = block;
    next = (next + 1) % KEPT;
}

/* Callers of the inner layers, so that these are found to be wrappers. */
#define OTHER(number)                                                                              \
    static NOT_INLINE void other_##number(size_t bytes)                                            \
    {                                                                                              \
        static char text[LONG];                                                                    \
        memset(text, 'a', bytes);                                                                  \
        text[bytes] = '\0';                                                                        \
        keep(moved(bytes));                                                                        \
        keep(strdup(text));                                                                        \
        keep(aligned(bytes));                                                                      \
    }
OTHER(0)
OTHER(1)
OTHER(2)
OTHER(3)

#define CALLER(number)                                                                             \
    static NOT_INLINE void *caller_##number(wrapper ask, const char *input, size_t length,         \
                                            size_t bytes)                                          \
    {                                                                                              \
        void *block = ask(input, length, bytes);                                                   \
        KEEP(block);                                                                               \
        return block;                                                                              \
    }
CALLER(0)
CALLER(1)
CALLER(2)
CALLER(3)
CALLER(4)
CALLER(5)

static void *(*const callers[])(wrapper, const char *, size_t, size_t) = {
    caller_0, caller_1, caller_2, caller_3, caller_4, caller_5};
enum { CALLERS = sizeof callers / sizeof callers[0], VICTIM = 0 };

static int compare(const void *a, const void *b)
{
    uintptr_t one = *(const uintptr_t *)a, other = *(const uintptr_t *)b;
    return (one > other) - (one < other);
}

static const struct {
    const char *name;
    wrapper ask;
} ways[] = {
    {"malloc", plain},
    {"calloc", zeroed},
    {"realloc", anew},
    {"aligned_alloc", at_32},
    {"a second layer", inner_call},
    {"a jump", inner_jump},
    {"posix_memalign", inner_aligned},
    {"strdup", copied},
};
enum { WAYS = sizeof ways / sizeof ways[0] };

static char input[LONG];

/* Ordinary use, with many blocks at a time, so that it is sampled. */
static void learn(wrapper ask)
{
    static void *held[HELD];
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < HELD; i++) {
            size_t bytes = 16 + i * 37 % 60 * 8;
            held[i] = callers[i % CALLERS](ask, input, SHORT, bytes);
            if (i % 8 == 0)
                other_0(bytes), other_1(bytes), other_2(bytes), other_3(bytes);
        }
        for (unsigned i = 0; i < HELD; i++)
            free(held[i]);
    }
}

/* How many of the others' requests are given what the victim had. */
static unsigned given(wrapper ask, size_t length, const uintptr_t *had)
{
    static void *fresh[TRIES];
    unsigned count = 0;
    for (unsigned i = 0; i < TRIES; i++) {
        fresh[i] = callers[1 + i % (CALLERS - 1)](ask, input, length, BYTES);
        uintptr_t address = (uintptr_t)fresh[i];
        count += bsearch(&address, had, OBJECTS, sizeof had[0], compare) != NULL;
    }
    for (unsigned i = 0; i < TRIES; i++)
        free(fresh[i]);
    return count;
}

static void try_way(const char *name, wrapper ask)
{
    static uintptr_t had[OBJECTS];
    memset(input, 'a', sizeof input);
    for (unsigned i = 0; i < OBJECTS; i++)
        had[i] = (uintptr_t)callers[VICTIM](ask, input, SHORT, BYTES);
    void *named = returns_to;
    for (unsigned i = 0; i < OBJECTS; i++)
        free((void *)had[i]);
    qsort(had, OBJECTS, sizeof had[0], compare);
    unsigned shared = given(ask, SHORT, had);
    CHECK(shared == 0, "%s: its callers are one site: %u of %d", name, shared, TRIES);
    for (unsigned i = 0; i < LONG / sizeof named; i++)
        memcpy(input + i * sizeof named, &named, sizeof named);
    unsigned forged = given(ask, LONG, had);
    CHECK(forged == 0, "%s: the input chose the site of %u of %d requests", name, forged, TRIES);
}

/* Each in a process of its own, whose wrappers are found anew. */
int main(void)
{
    check_is_calmalloc();
    memset(input, 'a', sizeof input);
    for (size_t i = 0; i < WAYS; i++) {
        pid_t pid = fork();
        CHECK(pid >= 0, "cannot fork");
        if (pid == 0) {
            learn(ways[i].ask);
            try_way(ways[i].name, ways[i].ask);
            check_heap();
            _exit(0);
        }
        int status;
        CHECK(waitpid(pid, &status, 0) == pid && status == 0, "%s: status %d", ways[i].name,
              status);
    }
    return 0;
}
