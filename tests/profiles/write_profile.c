/*
 * write_profile.c: writes a profile of three stacks of its own functions, in the format it is told.
 *
 *     profiles_write pprof|heap_v2|collapsed FILE
 *
 * Prints each stack, its return addresses and its four numbers, for the script to compare. Has a
 * malloc of its own that counts, and fails when writing the profile has called it.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "library.h"
#include "site/profile_write.h"

enum { ARENA_BYTES = 1 << 20, STACKS = 3 };

/* Never gives anything back. */
static _Alignas(16) char arena[ARENA_BYTES];
static size_t arena_used;
static unsigned long requests;

void *malloc(size_t size);
void *calloc(size_t count, size_t size);
void *realloc(void *block, size_t size);
void free(void *block);

void *malloc(size_t size)
{
    size_t at = arena_used;
    requests++;
    if (size > ARENA_BYTES - at)
        return NULL;
    arena_used = at + ((size + 15) & ~(size_t)15);
    return arena + at;
}

void *calloc(size_t count, size_t size)
{
    return malloc(count * size); /* never used before, so it reads as zero */
}

void *realloc(void *block, size_t size)
{
    void *copy = malloc(size);
    if (copy != NULL && block != NULL)
        memcpy(copy, block,
               size < (size_t)(arena + ARENA_BYTES - (char *)block)
                   ? size
                   : (size_t)(arena + ARENA_BYTES - (char *)block));
    return copy;
}

void free(void *block)
{
    (void)block;
    requests++;
}

struct chain {
    uintptr_t callers[PROFILE_DEPTH_MAX];
    size_t depth;
    jmp_buf back;
};
static struct chain chains[STACKS];

/* Blocks of 64 bytes, one sample of which stands for 8192.5 at this rate; and one huge block. */
static const uint64_t numbers[STACKS][4] = {
    {8193, 524352, 3 * 8193, 3 * 524352},
    {16385, 1048640, 32770, 2097280},
    {1, 100000000, 1, 100000000},
};

NOINLINE static void note(void *context)
{
    struct chain *chain = context;
    chain->callers[chain->depth++] = (uintptr_t)__builtin_return_address(0);
}

/* Notes its caller and does not return to it, so the compiler puts nothing behind the call. */
NOINLINE NORETURN static void note_and_leave(struct chain *chain)
{
    chain->callers[chain->depth++] = (uintptr_t)__builtin_return_address(0);
    longjmp(chain->back, 1);
}

NOINLINE static void alpha_site(struct chain *chain)
{
    note(chain); /* alpha_site */
}

NOINLINE static void middle(struct chain *chain)
{
    alpha_site(chain);
    note(chain); /* middle */
}

/* Its return address is behind its end: only the address of the call is in it. */
NOINLINE static void ends_in_call(struct chain *chain)
{
    note_and_leave(chain); /* ends_in_call */
}

NOINLINE static void run_all(void)
{
    middle(&chains[0]);
    note(&chains[0]); /* run_all 0 */
    library_site(note, &chains[1]);
    note(&chains[1]); /* run_all 1 */
    if (setjmp(chains[2].back) == 0)
        ends_in_call(&chains[2]);
    note(&chains[2]); /* run_all 2 */
}

static void visit_chains(void (*visit)(const struct profile_stack *, void *), void *context)
{
    for (unsigned i = 0; i < STACKS; i++) {
        const struct profile_stack stack = {
            .callers = chains[i].callers,
            .depth = chains[i].depth,
            .live_blocks = numbers[i][0],
            .live_bytes = numbers[i][1],
            .all_blocks = numbers[i][2],
            .all_bytes = numbers[i][3],
        };
        visit(&stack, context);
    }
}

static struct profile_facts read_facts(void)
{
    return (struct profile_facts){
        .rate_bytes = 524288,
        .start_ns = 1700000000123456789,
        .duration_ns = 5000000000,
        .samples = 12,
        .samples_lost = 3,
    };
}

static int format_of(const char *name)
{
    static const char *const names[] = {"pprof", "heap_v2", "collapsed"};
    for (int i = 0; i < 3; i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    return -1;
}

int main(int argc, char **argv)
{
    static const struct profile_source source = {visit_chains, read_facts};
    int format = argc == 3 ? format_of(argv[1]) : -1;
    if (format < 0)
        return 2;
    int fd = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0)
        return 2;
    run_all();
    unsigned long before = requests;
    int error = profile_write_from(&source, fd, (enum profile_format)format);
    unsigned long used = requests - before;
    if (error != 0 || used != 0 || close(fd) != 0) {
        fprintf(stderr, "error %d, %lu calls of malloc and free\n", error, used);
        return 1;
    }
    for (unsigned i = 0; i < STACKS; i++) {
        for (size_t frame = 0; frame < chains[i].depth; frame++)
            printf("%#lx ", (unsigned long)chains[i].callers[frame]);
        for (unsigned column = 0; column < 4; column++)
            printf("%lu%c", (unsigned long)numbers[i][column], column < 3 ? ' ' : '\n');
    }
    return 0;
}
