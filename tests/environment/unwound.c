/*
 * unwound.c: a program steps through its calls of the library, and at each instruction there a
 * handler unwinds by the tables and reaches main, as a sampling profiler or a debugger would. With
 * caches of cores each step aborts the sequence that it meets, so what runs then is met as well.
 *
 * A child of vfork, and of a syscall like it, leaves that call without `ret`, which would take its
 * parent's entry off a shadow stack.
 *
 *   unwound [by_cores]
 *
 * Seen to fail with calls that have no tables, with an abort that goes through code that has none,
 * with a child_call that does not say where its return address is, and with a child that returns by
 * `ret`.
 */
#define _GNU_SOURCE

#include "check.h"

#if defined(__x86_64__)

#include <dlfcn.h>
#include <link.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#include "step.h"

enum {
    LOOKS_EACH = 2, /* of one instruction */
    BLOCKS = 150,
    CODE_MAX = 4 << 20,
    STACK_BYTES = 64 << 10,
    PLACES_MIN = 8000,
    RET = 0xc3,
};

int main(int count, char **words);

static uintptr_t code_start, code_end;
static unsigned char looks[CODE_MAX];
static size_t places, aborts;
static pid_t parent;
static uintptr_t call_entry;  /* the stack's top where vfork or syscall began */
static uintptr_t call_return; /* where it returns to in the parent; 0: it has */
static void *call_starts[2];
static _Alignas(64) char stack[STACK_BYTES];

static int note_code(struct dl_phdr_info *info, size_t size, void *address)
{
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + part->p_vaddr, end = start + part->p_memsz;
        if (part->p_type == PT_LOAD && (part->p_flags & PF_X) != 0 && (uintptr_t)address >= start &&
            (uintptr_t)address < end) {
            code_start = start;
            code_end = end;
        }
    }
    return 0;
}

struct walk {
    bool has_main, has_return;
};

static _Unwind_Reason_Code look(struct _Unwind_Context *context, void *argument)
{
    struct walk *walk = argument;
    uintptr_t pc = _Unwind_GetIP(context);
    if (_Unwind_FindEnclosingFunction((void *)pc) == (void *)(uintptr_t)main)
        walk->has_main = true;
    if (pc == call_return)
        walk->has_return = true;
    return _URC_NO_REASON;
}

static bool is_after_abort(const unsigned char *code)
{
    static const unsigned char signature[] = {0x53, 0x30, 0x05, 0x53};
    return memcmp(code - sizeof signature, signature, sizeof signature) == 0;
}

static void on_step(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)info;
    const greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    uintptr_t pc = (uintptr_t)registers[REG_RIP], top = (uintptr_t)registers[REG_RSP];
    bool is_in_child = getpid() != parent;
    if (pc == call_return && !is_in_child)
        call_return = 0;
    if (pc < code_start || pc >= code_end)
        return;
    if (!is_in_child && ((void *)pc == call_starts[0] || (void *)pc == call_starts[1])) {
        call_entry = top;
        call_return = *(uintptr_t *)top;
    }
    CHECK(!is_in_child || *(unsigned char *)pc != RET || top < call_entry ||
              top - (uintptr_t)stack < sizeof stack,
          "a child returns over its parent's entry of a shadow stack");
    unsigned char *seen = &looks[pc - code_start];
    if (*seen >= LOOKS_EACH)
        return;
    places += *seen == 0;
    ++*seen;
    aborts += is_after_abort((const unsigned char *)pc);
    struct walk walk = {false, call_return == 0 || is_in_child};
    _Unwind_Reason_Code end = _Unwind_Backtrace(look, &walk);
    bool is_on_own_stack = top - (uintptr_t)stack <= sizeof stack; /* nobody called that child */
    CHECK(end == _URC_END_OF_STACK && ((walk.has_main && walk.has_return) || is_on_own_stack),
          "no way to main from offset 0x%zx of the library's code", (size_t)(pc - code_start));
}

static void *symbol(const char *name)
{
    void *found = dlsym(RTLD_DEFAULT, name);
    CHECK(found != NULL, "no %s", name);
    return found;
}

/* Every form that gives a block or takes one. */
static void run_forms(size_t size)
{
    static void *(*make)(size_t), *(*make_aligned)(size_t, size_t);
    static void (*drop)(void *), (*drop_aligned)(void *, size_t);
    static const char *const forms[][2] = {
        {"_Znwm", "_ZdlPv"}, {"_Znam", "_ZdaPv"}, {"calm_malloc", "calm_free"}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        *(void **)&make = symbol(forms[i][0]);
        *(void **)&drop = symbol(forms[i][1]);
        step(true);
        drop(make(size));
        step(false);
    }
    *(void **)&make_aligned = symbol("_ZnwmSt11align_val_t");
    *(void **)&drop_aligned = symbol("_ZdlPvSt11align_val_t");
    step(true);
    drop_aligned(make_aligned(size, 256), 256);
    void *block = hidden(malloc(size));
    block = hidden(realloc(block, size * 3));
    block = hidden(realloc(block, size / 2 + 1));
    malloc_usable_size(block);
    free(block);
    free(hidden(calloc(3, size)));
    free(hidden(aligned_alloc(64, (size + 63) / 64 * 64)));
    free(hidden(memalign(4096, size)));
    if (posix_memalign(&block, 128, size) == 0)
        free(hidden(block));
    free(hidden(valloc(size)));
    free(hidden(reallocarray(NULL, 2, size)));
    step(false);
}

/* What nobody calls in a loop: sizes and flags beside the block, questions, figures, the profiler.
 */
static void run_extended(size_t size)
{
    static void *(*mallocx_)(size_t, int), *(*rallocx_)(void *, size_t, int);
    static size_t (*xallocx_)(void *, size_t, size_t, int), (*sallocx_)(const void *, int);
    static size_t (*nallocx_)(size_t, int);
    static void (*dallocx_)(void *, int), (*sdallocx_)(void *, size_t, int);
    static void (*free_sized_)(void *, size_t), (*free_aligned_sized_)(void *, size_t, size_t);
    *(void **)&mallocx_ = symbol("mallocx");
    *(void **)&rallocx_ = symbol("rallocx");
    *(void **)&xallocx_ = symbol("xallocx");
    *(void **)&sallocx_ = symbol("sallocx");
    *(void **)&nallocx_ = symbol("nallocx");
    *(void **)&dallocx_ = symbol("dallocx");
    *(void **)&sdallocx_ = symbol("sdallocx");
    *(void **)&free_sized_ = symbol("free_sized");
    *(void **)&free_aligned_sized_ = symbol("free_aligned_sized");
    step(true);
    size_t good = nallocx_(size, 0);
    void *block = mallocx_(size, 0);
    xallocx_(block, size + 1, 0, 0);
    block = rallocx_(block, good * 2, 0);
    sallocx_(block, 0);
    dallocx_(block, 0);
    sdallocx_(mallocx_(size, 0), size, 0);
    free_sized_(hidden(malloc(size)), size);
    free_aligned_sized_(hidden(aligned_alloc(64, 640)), 64, 640);
    free(hidden(pvalloc(size)));
    step(false);
}

static void run_questions(void)
{
    static int (*dump)(int, const char *);
    static int (*begin)(size_t, uint64_t), (*get)(const char *, uint64_t *);
    static void (*end)(void);
    static size_t (*cohorts)(void *, size_t), (*good)(size_t);
    *(void **)&dump = symbol("calm_profile_dump");
    *(void **)&begin = symbol("calm_profile_start");
    *(void **)&end = symbol("calm_profile_stop");
    *(void **)&get = symbol("calm_option_get");
    *(void **)&cohorts = symbol("calm_cohorts_read");
    *(void **)&good = symbol("calm_good_size");
    FILE *nowhere = fopen("/dev/null", "w");
    int errors = dup(STDERR_FILENO);
    CHECK(nowhere != NULL && errors >= 0, "no /dev/null");
    dup2(fileno(nowhere), STDERR_FILENO);
    uint64_t value;
    step(true);
    mallinfo2();
    malloc_info(0, nowhere);
    get("purge_delay_ms", &value);
    cohorts(NULL, 0);
    good(100);
    begin(4000, 1);
    step(false);
    for (size_t i = 0; i < 20; i++) { /* samples: the profiler's own way through malloc */
        step(true);
        free(hidden(malloc(3000)));
        step(false);
    }
    step(true);
    dump(STDERR_FILENO, "pprof");
    end();
    step(false);
    dup2(errors, STDERR_FILENO);
    fclose(nowhere);
}

/* Refills and flushes. */
static void run_many(size_t size)
{
    static void *blocks[BLOCKS];
    step(true);
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = malloc(size);
    for (size_t i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    step(false);
}

static int child_body(void *argument)
{
    (void)argument;
    free(hidden(malloc(100)));
    _exit(0);
}

/* The child goes on in here, on the same stack. */
static __attribute__((noinline)) void run_child_by(long number)
{
    step(true);
    pid_t child = number == 0
                      ? vfork()
                      : (pid_t)syscall(number, CLONE_VM | CLONE_VFORK | SIGCHLD, 0L, 0L, 0L, 0L);
    if (child == 0)
        child_body(NULL);
    step(false);
    check_child_succeeds(child, "a child");
}

static void run_children(void)
{
    run_child_by(0);
    run_child_by(SYS_vfork);
    run_child_by(SYS_clone);
    step(true);
    pid_t child = clone(child_body, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
    step(false);
    check_child_succeeds(child, "a child of clone");
    step(true);
    long id = syscall(SYS_getpid), none = syscall(SYS_close, -1),
         bad = syscall(SYS_clone3, NULL, 0L);
    long sent = syscall(SYS_clone, CLONE_THREAD, 0L, 0L, 0L, 0L); /* without CLONE_VM: refused */
    step(false);
    CHECK(id == parent && none == -1 && bad == -1 && sent == -1, "a system call's result");
}

int main(int count, char **words)
{
    check_is_calmalloc();
    if (count > 1 && strcmp(words[1], "by_cores") == 0)
        check_is_by_cores();
    check_time_limit(550);
    parent = getpid();
    call_starts[0] = symbol("vfork");
    call_starts[1] = symbol("syscall");
    dl_iterate_phdr(note_code, check_symbol("calm_malloc"));
    CHECK(code_end - code_start - 1 < CODE_MAX, "more code than this test has places for");
    struct walk walk = {false, false}; /* what unwinding loads, it loads now */
    _Unwind_Backtrace(look, &walk);
    CHECK(walk.has_main, "no main from main");
    struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGTRAP, &action, NULL) == 0, "no handler");
    for (size_t size = 8; size <= 128 * KIB; size = size * 5 / 2)
        run_forms(size);
    run_extended(100);
    run_extended(100 * KIB);
    run_questions();
    step(true);
    free(hidden(malloc(8 * MIB)));
    step(false);
    for (size_t size = 16; size <= 16 * KIB; size *= 8)
        run_many(size);
    run_children();
    step(true);
    malloc_trim(0);
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
    step(false);
    printf("%zu instructions, %zu after an abort\n", places, aborts);
    CHECK(places > PLACES_MIN, "only %zu instructions were met", places);
    CHECK(count == 1 || aborts > 0, "no sequence was aborted");
    return 0;
}

#else

int main(void)
{
    check_skip("the trap flag is x86-64's");
}

#endif
