/*
 * alone.h: the functions of a C library that the allocator uses, for programs that have none.
 *
 * Included before all else, so that the names below replace the library's. Nothing tells a thread's
 * end here: Zig's own threads end by a system call. But the kernel walks each thread's list of
 * robust mutexes when it ends, and marks those that the thread holds. So each thread that has
 * something to leave holds a slot for life; the next thread that takes one finds the slots of the
 * dead and runs their hooks. As many caches are kept as threads lived at one time.
 *
 * Slots are never given back to the kernel. Any thread may look at any slot: S1 free -> owned and
 * S2 dead -> owned by compare-and-swap on `owner`, S3 owned -> dead by the kernel.
 *
 * There is no rseq area: thread-local storage is unmapped while a detached thread still runs, and
 * the kernel would write to it. There are no hooks of fork, no signals and no threads of the
 * executor either; each of these functions says that it failed.
 */
#ifndef CALM_ZIG_ALONE_H
#define CALM_ZIG_ALONE_H

#include <elf.h>
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { ALONE_SLOTS = 64, ALONE_PROT = PROT_READ | PROT_WRITE, ALONE_PAGE_BYTES_MAX = 65536 };

/* The first member is the list's head, whose address the kernel is given. */
struct alone_slot {
    struct robust_list_head head;
    struct robust_list entry;
    _Atomic uint32_t owner; /* a thread's number; 0: free */
    void *_Atomic value;    /* what its hook is told      */
};

struct alone_slots {
    struct alone_slots *next;
    struct alone_slot slots[ALONE_SLOTS];
};

static struct alone_slots alone_first;
static _Atomic(struct alone_slots *) alone_newest = &alone_first;
static void (*_Atomic alone_hook)(void *value);
static _Thread_local struct alone_slot *alone_own;
static _Thread_local int alone_errno;

/* The auxiliary vector, which Zig's start code keeps; NULL: none. Not there in a program that was
 * given the module and does not import it. */
extern const Elf64_auxv_t *calm_zig_auxv(void) __attribute__((weak));

/* os/linux/syscall.h has it, in the file that follows. */
static inline long system_call(long number, long a, long b, long c, long d, long e, long f);

/* --- a thread's end --- */

/* Takes a slot that is free or whose thread is dead; says what the dead one left. */
static bool alone_take(struct alone_slot *slot, uint32_t thread, void **left)
{
    uint32_t owner = atomic_load_explicit(&slot->owner, memory_order_acquire);
    if (owner != 0 && (owner & FUTEX_OWNER_DIED) == 0)
        return false;
    if (!atomic_compare_exchange_strong_explicit(&slot->owner, &owner, thread, memory_order_acquire,
                                                 memory_order_relaxed))
        return false;
    *left = atomic_exchange_explicit(&slot->value, NULL, memory_order_relaxed);
    return true;
}

static void alone_run_hook(void *left)
{
    void (*hook)(void *) = atomic_load_explicit(&alone_hook, memory_order_relaxed);
    if (left != NULL && hook != NULL)
        hook(left);
}

/* Adds slots to those that all know. */
static struct alone_slots *alone_add(void)
{
    struct alone_slots *added;
    long result = system_call(SYS_mmap, 0, sizeof *added, ALONE_PROT, MAP_PRIVATE | MAP_ANONYMOUS,
                              -1, 0);
    if (result < 0 && result > -4096)
        return NULL;
    added = (struct alone_slots *)result;
    added->next = atomic_load_explicit(&alone_newest, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&alone_newest, &added->next, added,
                                                  memory_order_release, memory_order_relaxed))
        ;
    return added;
}

/* Keeps the first slot that can be had, and empties those of all other dead threads. */
static struct alone_slot *alone_find(uint32_t thread)
{
    struct alone_slot *kept = NULL;
    struct alone_slots *some = atomic_load_explicit(&alone_newest, memory_order_acquire);
    for (; some != NULL; some = some->next)
        for (unsigned i = 0; i < ALONE_SLOTS; i++) {
            struct alone_slot *slot = &some->slots[i];
            void *left = NULL;
            bool is_free = atomic_load_explicit(&slot->owner, memory_order_relaxed) == 0;
            if ((kept != NULL && is_free) || !alone_take(slot, thread, &left))
                continue;
            if (kept == NULL)
                kept = slot;
            else
                atomic_store_explicit(&slot->owner, 0, memory_order_release);
            alone_run_hook(left);
        }
    for (unsigned tries = 0; kept == NULL && tries < 4; tries++) {
        void *left;
        some = alone_add();
        if (some == NULL)
            return NULL;
        for (unsigned i = 0; i < ALONE_SLOTS && kept == NULL; i++)
            if (alone_take(&some->slots[i], thread, &left))
                kept = &some->slots[i];
    }
    return kept;
}

/* The calling thread's slot from now on, which the kernel marks at its end. */
static struct alone_slot *alone_hold(void)
{
    uint32_t thread = (uint32_t)system_call(SYS_gettid, 0, 0, 0, 0, 0, 0);
    struct alone_slot *slot = alone_find(thread);
    if (slot == NULL)
        return NULL;
    slot->entry.next = &slot->head.list;
    slot->head.list.next = &slot->entry;
    slot->head.futex_offset = (long)offsetof(struct alone_slot, owner) -
                              (long)offsetof(struct alone_slot, entry);
    slot->head.list_op_pending = NULL;
    if (system_call(SYS_set_robust_list, (long)&slot->head, sizeof slot->head, 0, 0, 0, 0) != 0) {
        atomic_store_explicit(&slot->owner, 0, memory_order_release);
        return NULL;
    }
    return slot;
}

/* The allocator has one hook of a thread's end; the other, of rseq, it does not ask for here. */
static int alone_key_create(pthread_key_t *key, void (*hook)(void *))
{
    *key = 0;
    atomic_store_explicit(&alone_hook, hook, memory_order_relaxed);
    return 0;
}

static int alone_setspecific(pthread_key_t key, const void *value)
{
    (void)key;
    if (alone_own == NULL && (alone_own = alone_hold()) == NULL)
        return EAGAIN;
    atomic_store_explicit(&alone_own->value, (void *)(uintptr_t)value, memory_order_relaxed);
    return 0;
}

/* --- the process --- */

static int *alone_errno_location(void)
{
    return &alone_errno;
}

static const Elf64_auxv_t *alone_auxv(void)
{
    return calm_zig_auxv != NULL ? calm_zig_auxv() : NULL;
}

static unsigned long alone_getauxval(unsigned long type)
{
    const Elf64_auxv_t *entry = alone_auxv();
    for (; entry != NULL && entry->a_type != AT_NULL; entry++)
        if (entry->a_type == type)
            return entry->a_un.a_val;
    return 0;
}

/* The environment ends where the auxiliary vector begins: NULL, NAME=VALUE..., NULL, vector. */
static char *const *alone_environ(void)
{
    char *const *entry = (char *const *)(const void *)alone_auxv();
    if (entry == NULL)
        return NULL;
    for (entry -= 2; *entry != NULL; entry--)
        continue;
    return entry + 1;
}

static int alone_clock_gettime(clockid_t clock, struct timespec *out)
{
    return (int)system_call(SYS_clock_gettime, clock, (long)out, 0, 0, 0, 0);
}

static long alone_told(long result)
{
    if (result >= 0 || result < -4095)
        return result;
    alone_errno = (int)-result;
    return -1;
}

static int alone_madvise(void *start, size_t bytes, int advice)
{
    return (int)alone_told(system_call(SYS_madvise, (long)start, (long)bytes, advice, 0, 0, 0));
}

static void *alone_mmap(void *at, size_t bytes, int access, int flags, int file, long offset)
{
    return (void *)alone_told(
        system_call(SYS_mmap, (long)at, (long)bytes, access, flags, file, offset));
}

static void *alone_mremap(void *from, size_t bytes, size_t new_bytes, int flags, void *to)
{
    return (void *)alone_told(system_call(SYS_mremap, (long)from, (long)bytes, (long)new_bytes,
                                          flags, (long)to, 0));
}

static long alone_sysconf(int name)
{
    return name == _SC_PAGESIZE ? (long)alone_getauxval(AT_PAGESZ) : -1;
}

static size_t alone_strlen(const char *words)
{
    size_t length = 0;
    while (words[length] != '\0') {
        length++;
        __asm__ volatile("" ::: "memory"); /* or the compiler would call strlen */
    }
    return length;
}

static int alone_strcmp(const char *left, const char *right)
{
    for (; *left != '\0' && *left == *right; left++)
        right++;
    return (unsigned char)*left - (unsigned char)*right;
}

/* --- what there is not --- */

static int alone_sigaction(int number, const struct sigaction *action, struct sigaction *before)
{
    (void)number, (void)action, (void)before;
    alone_errno = ENOSYS;
    return -1;
}

static int alone_atfork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void))
{
    (void)before, (void)in_parent, (void)in_child;
    return ENOSYS;
}

static int alone_thread_create(pthread_t *thread, const pthread_attr_t *facts,
                               void *(*body)(void *), void *argument)
{
    (void)thread, (void)facts, (void)body, (void)argument;
    return EAGAIN;
}

static int alone_thread_join(pthread_t thread, void **result)
{
    (void)thread, (void)result;
    return ESRCH;
}

#undef errno
#define errno (*alone_errno_location())
#define HAS_SEQUENCES 0 /* their key would be a second one */
#define abort() __builtin_trap()
#define clock_gettime alone_clock_gettime
#define environ alone_environ()
#define getauxval alone_getauxval
#define madvise alone_madvise
#define mmap alone_mmap
#define mremap alone_mremap
#define pthread_atfork alone_atfork
#define pthread_create alone_thread_create
#define pthread_join alone_thread_join
#define pthread_key_create alone_key_create
#define pthread_setspecific alone_setspecific
#define sigaction(number, action, before) alone_sigaction(number, action, before)
#define sigemptyset(set) ((void)(*(set) = (sigset_t){{0}}))
#define strcmp alone_strcmp
#define strlen alone_strlen
#define sysconf alone_sysconf

#endif
