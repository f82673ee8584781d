/*
 * stack_cases.c: the cases of stack_cases.h, compiled with CASES as the table's name and HAS_TABLES
 * 0 or 1. With CASES_MAIN it is a program, for processors that have no GoogleTest.
 *
 * Seen to fail: the caller looked up at its return address instead of before it; a CFA without the
 * last def_cfa_offset; a saved register read from the next word; restore_state ignored; the kernel
 * not asked before a read; return addresses that keep their signature; 64 states to remember, which
 * are too large for a stack that is almost full.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "os/stack.h"
#include "stack_cases.h"

enum { DEPTH_MAX = 64, TOLD_MAX = 8, PAGE = 4096, STACK_BYTES = 64 * 1024, GARBAGE_ROUNDS = 1000 };

#if defined(__GNUC__) && !defined(__clang__)
#define NOT_INLINE __attribute__((noinline, noclone, no_sanitize("address"), no_sanitize("thread")))
#else
#define NOT_INLINE __attribute__((noinline, no_sanitize("address"), no_sanitize("thread")))
#endif

/* Shared with children, also where an emulator makes a copy for the child of a vfork. */
static struct {
    void *expected[DEPTH_MAX]; /* outermost first */
    size_t expected_count;
    uintptr_t ours[DEPTH_MAX];
    size_t our_count;
    void *theirs[DEPTH_MAX];
    size_t their_count;
} *notes;

static volatile int sink;
static void (*volatile at_the_end)(void);

/* A signed address is what the processor returns to without its signature. */
#define WRITE_DOWN()                                                                               \
    (notes->expected[notes->expected_count++] = __builtin_extract_return_addr(                     \
         __builtin_return_address(0)))

NOT_INLINE static void capture(void)
{
    WRITE_DOWN();
    errno = 12345;
    notes->our_count = os_stack(notes->ours, DEPTH_MAX);
    uintptr_t from[DEPTH_MAX];
    size_t count = os_stack_from((uintptr_t)__builtin_return_address(0),
                                 (uintptr_t)__builtin_dwarf_cfa(), from, DEPTH_MAX);
    bool is_same = count == notes->our_count &&
                   memcmp(from, notes->ours, count * sizeof from[0]) == 0;
    uintptr_t told[TOLD_MAX];
    size_t told_count = os_stack_told(
        (uintptr_t)__builtin_extract_return_addr(__builtin_return_address(0)),
        (uintptr_t)__builtin_dwarf_cfa(), told, TOLD_MAX);
    bool is_told = told_count <= notes->our_count && (HAS_TABLES || told_count == 0) &&
                   memcmp(told, notes->ours, told_count * sizeof told[0]) == 0;
    if (errno != 12345 || (count != 0 && !is_same) || !is_told)
        notes->our_count = 0;
    notes->their_count = (size_t)backtrace(notes->theirs, DEPTH_MAX);
    sink = 1;
}

/* With a frame of a size known when it runs only. */
NOT_INLINE static void link_sized(int size)
{
    WRITE_DOWN();
    volatile char *room = __builtin_alloca((size_t)size);
    room[size - 1] = 1;
    at_the_end();
    sink = room[size - 1];
}

/* With a stack that is aligned anew, and two ways to return, one before anything is saved. */
NOT_INLINE static int link_aligned(int size)
{
    if (size == 0)
        return 1;
    WRITE_DOWN();
    volatile __attribute__((aligned(64))) char room[256];
    room[size % 256] = 1;
    link_sized(size);
    sink = room[size % 256];
    return (int)((uintptr_t)room % 64);
}

/* With a frame of several pages, and registers that outlive the call. */
NOT_INLINE static int link_large(int a, int b, int c)
{
    WRITE_DOWN();
    volatile char room[5 * PAGE];
    room[a % PAGE] = (char)b;
    int d = a * b, e = b * c, f = a * c;
    int rest = link_aligned(a);
    sink = room[a % PAGE] + d + e + f;
    return rest + d - d;
}

NOT_INLINE static int run_chain(void (*end)(void))
{
    WRITE_DOWN();
    at_the_end = end;
    int rest = link_large(100, 3, 5);
    sink = 2;
    return rest;
}

static void forget(void)
{
    if (notes == NULL)
        notes = mmap(NULL, sizeof *notes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                     0);
    if (notes == MAP_FAILED)
        abort();
    notes->expected_count = notes->our_count = notes->their_count = 0;
}

/* The written addresses among ours in order, from `first` on, which it moves behind them;
 * `gap`: how many others may lie between two. */
static const char *find_written(size_t *first, size_t gap)
{
    static char sentence[256];
    size_t at = *first;
    for (size_t i = notes->expected_count; i-- > 0;) {
        size_t last = at + gap;
        while (at < notes->our_count && at < last && (void *)notes->ours[at] != notes->expected[i])
            at++;
        if (at >= notes->our_count || (void *)notes->ours[at] != notes->expected[i]) {
            snprintf(sentence, sizeof sentence,
                     "caller %zu of %zu: %p is not there; it is %p, of %zu", at,
                     notes->expected_count, notes->expected[i],
                     at < notes->our_count ? (void *)notes->ours[at] : NULL, notes->our_count);
            return sentence;
        }
        at++;
    }
    *first = at;
    return NULL;
}

/* From `at` on, ours are the same as those of the C library's backtrace(). */
static const char *same_end(size_t at)
{
    static char sentence[128];
    if (!HAS_TABLES)
        return NULL;
    if (notes->their_count < notes->our_count - at)
        return "backtrace() has fewer callers";
    for (size_t ours_left = notes->our_count, left = notes->their_count; ours_left > at;
         ours_left--, left--) {
        if ((void *)notes->ours[ours_left - 1] == notes->theirs[left - 1])
            continue;
        snprintf(sentence, sizeof sentence, "caller %zu is %p, and %p by backtrace()",
                 ours_left - 1, (void *)notes->ours[ours_left - 1], notes->theirs[left - 1]);
        return sentence;
    }
    return NULL;
}

static const char *written_then_the_same(size_t gap)
{
    size_t at = 0;
    const char *wrong = find_written(&at, gap);
    return wrong != NULL ? wrong : same_end(gap == 0 ? 0 : at);
}

static const char *a_chain_of_calls(void)
{
    forget();
    run_chain(capture);
    return written_then_the_same(0);
}

static const char *no_more_than_asked_for(void)
{
    uintptr_t callers[3] = {1, 2, 3};
    if (os_stack(callers, 0) != 0 || callers[0] != 1)
        return "asked for none, got one";
    if (os_stack(callers, 2) != 2 || callers[2] != 3)
        return "asked for two, got something else";
    return NULL;
}

static void on_signal(int number)
{
    (void)number;
    capture();
    sink = 3;
}

static void interrupt(void)
{
    raise(SIGUSR1);
    sink = 4;
}

static const char *signalled(int flags)
{
    static char room[STACK_BYTES];
    stack_t alternate = {.ss_sp = room, .ss_size = sizeof room}, before;
    struct sigaction action, action_before;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = flags;
    if (sigaltstack(&alternate, &before) != 0 || sigaction(SIGUSR1, &action, &action_before) != 0)
        return "the handler cannot be installed";
    forget();
    run_chain(interrupt);
    sigaction(SIGUSR1, &action_before, NULL);
    sigaltstack(&before, NULL);
    return written_then_the_same(8);
}

static const char *a_signal_on_its_own_stack(void)
{
#if defined(__aarch64__)
    if (!HAS_TABLES)
        return NULL; /* the way through the handler's frame needs its stack pointer */
#endif
    return signalled(SA_ONSTACK);
}

static const char *a_signal_on_the_same_stack(void)
{
    return signalled(0);
}

static int compare(const void *a, const void *b)
{
    if (notes->our_count == 0)
        capture();
    sink = 5;
    return *(const int *)a - *(const int *)b;
}

static void sort(void)
{
    int numbers[2] = {2, 1};
    qsort(numbers, 2, sizeof numbers[0], compare);
    sink = numbers[0];
}

static const char *a_callback_of_the_c_library(void)
{
    forget();
    run_chain(sort);
    return written_then_the_same(8);
}

static void *in_thread(void *nothing)
{
    run_chain(capture);
    return nothing;
}

static const char *a_thread(void)
{
    pthread_t thread;
    forget();
    if (pthread_create(&thread, NULL, in_thread, NULL) != 0)
        return "there is no thread";
    pthread_join(thread, NULL);
    return written_then_the_same(0);
}

static void fork_and_capture(void)
{
    pid_t child = vfork();
    if (child == 0) {
        capture();
        _exit(0);
    }
    waitpid(child, NULL, 0);
    sink = 6;
}

static const char *the_child_of_a_vfork(void)
{
    forget();
    run_chain(fork_and_capture);
    return written_then_the_same(2);
}

static ucontext_t main_context, coroutine_context;

static void coroutine(void)
{
    run_chain(capture);
}

/* On a stack without anything around it. */
static const char *a_coroutine(void)
{
    char *room = mmap(NULL, STACK_BYTES + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED || mprotect(room + PAGE, STACK_BYTES, PROT_READ | PROT_WRITE) != 0)
        return "there is no memory";
    forget();
    getcontext(&coroutine_context);
    coroutine_context.uc_stack.ss_sp = room + PAGE;
    coroutine_context.uc_stack.ss_size = STACK_BYTES;
    coroutine_context.uc_link = &main_context;
    makecontext(&coroutine_context, coroutine, 0);
    swapcontext(&main_context, &coroutine_context);
    const char *wrong = written_then_the_same(0);
    munmap(room, STACK_BYTES + 2 * PAGE);
    return wrong;
}

/*
 * Calls `callee` with this frame pointer on a stack that ends where `sp` points, and comes back. It
 * has no unwind tables.
 */
void stack_call_with(uintptr_t fp, void *sp, void (*callee)(void));

#if defined(__x86_64__)
__asm__(".pushsection .text\n.weak stack_call_with\n.hidden stack_call_with\n"
        ".type stack_call_with, @function\nstack_call_with:\n"
        "push %rbp\npush %rbx\nmov %rsp, %rbx\nmov %rdi, %rbp\nmov %rsi, %rsp\ncall *%rdx\n"
        "mov %rbx, %rsp\npop %rbx\npop %rbp\nret\n"
        ".size stack_call_with, . - stack_call_with\n.popsection\n");
#else
__asm__(".pushsection .text\n.weak stack_call_with\n.hidden stack_call_with\n"
        ".type stack_call_with, %function\nstack_call_with:\n"
        "stp x29, x30, [sp, #-32]!\nstr x19, [sp, #16]\nmov x19, sp\nmov x29, x0\nmov sp, x1\n"
        "blr x2\nmov sp, x19\nldr x19, [sp, #16]\nldp x29, x30, [sp], #32\nret\n"
        ".size stack_call_with, . - stack_call_with\n.popsection\n");
#endif

NOT_INLINE static void just_capture(void)
{
    notes->our_count = os_stack(notes->ours, DEPTH_MAX);
    sink = 7;
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* What a word of a broken stack may be: a place on it, code, the end of the mapping, noise. */
static uintptr_t garbage(uint64_t *random, const char *room)
{
    uint64_t choice = next_random(random), place = next_random(random) % (STACK_BYTES + 64);
    switch (choice % 8) {
    case 0: return 0;
    case 1: return (uintptr_t)room + PAGE + place;
    case 2:
    case 3: return ((uintptr_t)room + PAGE + place) & ~(uintptr_t)15;
    case 4: return (uintptr_t)run_chain + place % 512;
    case 5: return (uintptr_t)qsort + place % 4096;
    case 6: return UINTPTR_MAX - place % 64;
    default: return (uintptr_t)next_random(random);
    }
}

static const char *broken_stacks(void)
{
    char *room = mmap(NULL, STACK_BYTES + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED || mprotect(room + PAGE, STACK_BYTES, PROT_READ | PROT_WRITE) != 0)
        return "there is no memory";
    uint64_t random = 1;
    size_t walked = 0;
    for (int round = 0; round < GARBAGE_ROUNDS; round++) {
        uintptr_t *words = (uintptr_t *)(void *)(room + PAGE);
        for (size_t i = 0; i < STACK_BYTES / sizeof *words; i++)
            words[i] = garbage(&random, room);
        size_t above = next_random(&random) % 3072 * 16; /* garbage over the stack pointer */
        forget();
        stack_call_with(garbage(&random, room), room + PAGE + STACK_BYTES - above, just_capture);
        if (notes->our_count == 0)
            return "the caller itself is missing";
        walked += notes->our_count - 1;
    }
    munmap(room, STACK_BYTES + 2 * PAGE);
    return walked > GARBAGE_ROUNDS / 32 ? NULL : "no walk went on over garbage";
}

/* Frame pointers that form a loop, and one that points where nothing can be read. */
static const char *broken_frame_pointers(void)
{
    char *room = mmap(NULL, STACK_BYTES + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                      -1, 0);
    if (room == MAP_FAILED || mprotect(room + STACK_BYTES, PAGE, PROT_NONE) != 0)
        return "there is no memory";
    char *sp = room + STACK_BYTES - PAGE;
    uintptr_t *record = (uintptr_t *)(void *)(sp + 64);
    record[0] = (uintptr_t)record;
    record[1] = (uintptr_t)stack_call_with + 8;
    const uintptr_t pointers[] = {
        (uintptr_t)record,
        (uintptr_t)room + STACK_BYTES,
        (uintptr_t)room + STACK_BYTES - 8,
        (uintptr_t)room,
        (uintptr_t)sp + 1,
        1,
        UINTPTR_MAX,
        UINTPTR_MAX - 7,
        (uintptr_t)1 << 63,
    };
    for (size_t i = 0; i < sizeof pointers / sizeof pointers[0]; i++) {
        forget();
        stack_call_with(pointers[i], sp, just_capture);
        if (notes->our_count != (i == 0 ? 2 : 1))
            return "a broken frame pointer was followed, or a good one was not";
    }
    munmap(room, STACK_BYTES + PAGE);
    return NULL;
}

void __asan_init(void) __attribute__((weak));
void __tsan_init(void) __attribute__((weak));

static const char *a_stack_that_is_almost_full(void)
{
    if (__asan_init != NULL || __tsan_init != NULL)
        return NULL; /* instrumented functions need more */
    char *room = mmap(NULL, 3 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED || mprotect(room + PAGE, PAGE, PROT_READ | PROT_WRITE) != 0)
        return "there is no memory";
    forget();
    just_capture(); /* binds what is bound at a first call */
    stack_call_with(0, room + 2 * PAGE, just_capture);
    munmap(room, 3 * PAGE);
    return notes->our_count == 1 ? NULL : "another number of callers";
}

extern const struct stack_case CASES[];
const struct stack_case CASES[] = {
    {"a chain of calls", a_chain_of_calls},
    {"no more than asked for", no_more_than_asked_for},
    {"a signal on its own stack", a_signal_on_its_own_stack},
    {"a signal on the same stack", a_signal_on_the_same_stack},
    {"a callback of the C library", a_callback_of_the_c_library},
    {"a thread", a_thread},
    {"the child of a vfork", the_child_of_a_vfork},
    {"a coroutine", a_coroutine},
    {"a stack that is almost full", a_stack_that_is_almost_full},
    {"broken stacks", broken_stacks},
    {"broken frame pointers", broken_frame_pointers},
    {NULL, NULL},
};

#if defined(CASES_MAIN)
int main(void)
{
    int failed = 0;
    for (const struct stack_case *one = CASES; one->name != NULL; one++) {
        const char *wrong = one->run();
        failed += wrong != NULL;
        if (wrong != NULL)
            printf("%s: %s\n", one->name, wrong);
    }
    return failed;
}
#endif
