/*
 * thread.c: the helper thread, and the C library's hooks for thread exit and fork.
 *
 * The helper is made by the kernel alone: pthread_create would allocate, and would count as a
 * thread of the program in the C library's eyes. Each has storage of its own where thread-local
 * storage is expected, fresh from the kernel, so that what the library keeps for a thread begins as
 * zero and is never that of an earlier helper. It does not share the working directory's structure
 * (no CLONE_FS), which unshare and setns look at.
 */
#define _GNU_SOURCE

#include "os/os.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>

#include "base/bits.h"
#include "os/linux/syscall.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define UNDER_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define UNDER_SANITIZER 1
#endif
#ifndef UNDER_SANITIZER
#define UNDER_SANITIZER 0
#endif

static pthread_key_t exit_key;
static bool is_exit_key_made;
static _Atomic long helper_id;
static _Thread_local char own; /* somewhere in what the library keeps for a thread */

/* Of the helper: whoever starts one has both. */
static void *storage;
static size_t storage_bytes;

enum {
    OWN_BYTES_MAX = 64 *
                    1024, /* a multiple of any page; more than the library keeps for a thread */
    HELPER_FLAGS = CLONE_VM | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
                   CLONE_SETTLS | CLONE_CHILD_CLEARTID,
    SIGNAL_SET_BYTES = 8,
};

#if defined(__x86_64__)

/* True under valgrind, which cannot run threads that are made this way. The sequence is a no-op on
 * hardware. */
static bool is_under_valgrind(void)
{
    uint64_t request[6] = {0x1001, 0, 0, 0, 0, 0};
    uint64_t answer = 0;
    __asm__ volatile("rolq $3, %%rdi\n\trolq $13, %%rdi\n\trolq $61, %%rdi\n\trolq $51, "
                     "%%rdi\n\txchgq %%rbx, %%rbx"
                     : "=d"(answer)
                     : "a"(request), "0"(answer)
                     : "cc", "memory", "rdi");
    return answer != 0;
}

/* True if the processor stops after each instruction, which a thread made now would inherit. */
static bool is_stepped(void)
{
    enum { TRAP_FLAG = 0x100 };
    return (__builtin_ia32_readeflags_u64() & TRAP_FLAG) != 0;
}

/* The child wakes on `stack` with the body on top of it, and never returns here. */
static long clone_helper(void (*body)(void), char *stack, char *tls, _Atomic uint32_t *alive)
{
    long result;
    uint64_t *top = (uint64_t *)(void *)stack -
                    2; /* 16-byte aligned once the body's address is popped and called */
    *top = (uintptr_t)body;
    register long r10 __asm__("r10") = (long)alive;
    register long r8 __asm__("r8") = (long)tls;
    __asm__ volatile("syscall\n\t"
                     "testq %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "xorl %%ebp, %%ebp\n\t"
                     "popq %%rax\n\t"
                     "addq $8, %%rsp\n\t"
                     "call *%%rax\n\t"
                     "movl %[exit], %%eax\n\t"
                     "xorl %%edi, %%edi\n\t"
                     "syscall\n\t"
                     "1:"
                     : "=a"(result)
                     : "a"((long)SYS_clone), "D"((long)HELPER_FLAGS), "S"((long)top), "d"(0L),
                       "r"(r10), "r"(r8), [exit] "i"(SYS_exit)
                     : "rcx", "r11", "memory");
    return result;
}

#elif defined(__aarch64__)

static bool is_under_valgrind(void)
{
    return false;
}

static bool is_stepped(void)
{
    return false;
}

static long clone_helper(void (*body)(void), char *stack, char *tls, _Atomic uint32_t *alive)
{
    register long x8 __asm__("x8") = SYS_clone;
    register long x0 __asm__("x0") = HELPER_FLAGS;
    register long x1 __asm__("x1") = (long)stack;
    register long x2 __asm__("x2") = 0;
    register long x3 __asm__("x3") = (long)tls;
    register long x4 __asm__("x4") = (long)alive;
    register long x9 __asm__("x9") = (long)body;
    __asm__ volatile("svc 0\n\t"
                     "cbnz x0, 1f\n\t"
                     "mov x29, xzr\n\t"
                     "blr x9\n\t"
                     "mov x8, %[exit]\n\t"
                     "mov x0, xzr\n\t"
                     "svc 0\n\t"
                     "1:"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x9), [exit] "i"(SYS_exit)
                     : "memory", "x30");
    return x0;
}

#endif

/* The C library's own word; it is there from version 2.32 on. Nobody else can wait for a lock while
 * it is set, and a helper knows no signals. */
extern char __libc_single_threaded __attribute__((weak));

/* What an instruction of the thread's own brings: a step, a breakpoint, or a system call of ours
 * that a filter has a handler answer. The kernel ends a process that blocks the signal then. */
#define SIGNAL_BIT(signal) (UINT64_C(1) << ((signal) - 1))
#define ALL_BUT_OWN (~(SIGNAL_BIT(SIGTRAP) | SIGNAL_BIT(SIGSYS)))

static bool signals_mask(uint64_t mask, uint64_t *before)
{
    return system_call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&mask, (long)before, SIGNAL_SET_BYTES,
                       0, 0) == 0;
}

bool os_signals_block(uint64_t *before)
{
    if (&__libc_single_threaded != NULL && __libc_single_threaded != 0)
        return false;
    return os_signals_block_always(before);
}

bool os_signals_block_always(uint64_t *before)
{
    return signals_mask(ALL_BUT_OWN, before);
}

void os_signals_restore(uint64_t before)
{
    system_call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&before, 0, SIGNAL_SET_BYTES, 0, 0);
}

/*
 * Zeros on both sides of a thread pointer, as far as the library's own variables are from the
 * calling thread's: a program with much thread-local storage of its own puts ours far away. The
 * earlier helper's, which has ended, goes back.
 */
static int renew_storage(char **pointer)
{
    intptr_t distance = &own - (char *)__builtin_thread_pointer();
    size_t reach = align_up((size_t)(distance < 0 ? -distance : distance), OWN_BYTES_MAX) +
                   OWN_BYTES_MAX;
    void *earlier = storage;
    storage = NULL; /* first: a fork's child must not release what is another's there */
    if (earlier != NULL)
        os_release(earlier, storage_bytes);
    storage_bytes = 2 * reach;
    int error = os_reserve(storage_bytes, OWN_BYTES_MAX, &storage);
    if (error != 0)
        return error;
    error = os_commit(storage, storage_bytes);
    if (error != 0)
        return error;
    *pointer = (char *)storage + reach;
    *(void **)(void *)*pointer = *pointer; /* where x86-64 reads the pointer itself */
    return 0;
}

/* True if a filter refuses what a helper is for. It must not try by itself: it knows no signals,
 * and has no room for a handler. */
static bool is_purging_refused(void)
{
    return system_call(SYS_madvise, 0, 0, MADV_DONTNEED, 0, 0, 0) != 0;
}

int os_helper_start(void (*body)(void), void *stack, size_t size, _Atomic uint32_t *alive)
{
    if (UNDER_SANITIZER || is_under_valgrind() || is_purging_refused())
        return -EPERM;
    if (is_stepped())
        return -EAGAIN;
    char *tls;
    int error = renew_storage(&tls);
    if (error != 0)
        return error;
    uint64_t before = 0;
    signals_mask(UINT64_MAX, &before);
    long result = clone_helper(body, (char *)stack + size, tls, alive);
    os_signals_restore(before);
    store(&helper_id, result, RELAXED);
    return result < 0 ? (int)result : 0;
}

/* The kernel clears *alive a little before the thread leaves the process, so its number is asked
 * for as well. */
void os_helper_join(_Atomic uint32_t *alive, uint64_t timeout_ms)
{
    long process = system_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
    for (uint64_t waited = 0; waited < timeout_ms; waited++) {
        long id = load(&helper_id, RELAXED);
        if (load(alive, ACQUIRE) == 0 &&
            (id <= 0 || system_call(SYS_tgkill, process, id, 0, 0, 0, 0) == -ESRCH))
            return;
        struct timespec pause = {.tv_nsec = 1000 * 1000};
        system_call(SYS_nanosleep, (long)&pause, 0, 0, 0, 0, 0);
    }
}

int os_on_thread_exit(void (*on_exit)(void *value))
{
    int result = pthread_key_create(&exit_key, on_exit);
    is_exit_key_made = result == 0;
    return -result;
}

int os_thread_exit_arm(void *value)
{
    return is_exit_key_made ? -pthread_setspecific(exit_key, value) : -EAGAIN;
}

int os_on_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void))
{
    return -pthread_atfork(before, in_parent, in_child);
}
