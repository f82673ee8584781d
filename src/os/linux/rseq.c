/*
 * rseq.c: whether threads can have restartable sequences here, and each thread's area.
 *
 * The C library registers an area for each thread since glibc 2.35. Where it did not, a thread gets
 * one in its own thread-local storage, and gives it up before that storage goes.
 */
#define _GNU_SOURCE

#include "os/rseq.h"

#include <errno.h>
#include <pthread.h>
#include <sys/auxv.h>

#include "os/linux/syscall.h"
#include "os/os.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HAS_SEQUENCES 0 /* it sees the stores of instructions only that the compiler made */
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define HAS_SEQUENCES 0
#endif
#ifndef HAS_SEQUENCES
#define HAS_SEQUENCES 1
#endif

enum {
    AUX_FEATURE_BYTES = 27,
    AREA_BYTES = 32,
    AREA_BYTES_WITH_CORE = 28,
    UNREGISTER = 1,
    BARRIER_SEQUENCES = 1 << 7, /* membarrier(2): PRIVATE_EXPEDITED_RSEQ */
    BARRIER_REGISTER = 1 << 8,
};

#if defined(__x86_64__)
enum { SIGNATURE = 0x53053053 };
#else
enum { SIGNATURE = (int)0xd428bc00 };
#endif

/* glibc's, where it has them. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

static _Thread_local struct rseq_area own_area __attribute__((aligned(AREA_BYTES)));
static pthread_key_t leave_key;
static bool is_key_made;
static void (*_Atomic leave_hook)(void);

/* Runs among the destructors of thread-specific data: the storage of `own_area` may go with the
 * thread, while the kernel still writes to it. */
static void leave(void *area)
{
    load(&leave_hook, RELAXED)();
    system_call(SYS_rseq, (long)area, AREA_BYTES, UNREGISTER, SIGNATURE, 0, 0);
}

int os_rseq_start(void)
{
    if (!HAS_SEQUENCES || getauxval(AUX_FEATURE_BYTES) < AREA_BYTES_WITH_CORE)
        return -ENOSYS;
    is_key_made = pthread_key_create(&leave_key, leave) == 0;
    return (int)system_call(SYS_membarrier, BARRIER_REGISTER, 0, 0, 0, 0, 0);
}

/* Whether the kernel knows an area of this thread. A thread that the C library did not make has
 * storage that nobody registered, perhaps zeroed, which reads as CPU 0 and core 0. Then the kernel
 * is asked: it refuses another registration beside one that it has. */
static bool is_registered(struct rseq_area *area)
{
    if ((int32_t)area->cpu_id != 0 || area->core != 0)
        return (int32_t)area->cpu_id >= 0;
    long result = system_call(SYS_rseq, (long)area, AREA_BYTES, 0, SIGNATURE, 0, 0);
    if (result == 0)
        system_call(SYS_rseq, (long)area, AREA_BYTES, UNREGISTER, SIGNATURE, 0, 0);
    return result == -EBUSY || result == -EINVAL; /* EINVAL: of another length */
}

struct rseq_area *os_rseq_join(void (*on_leave)(void))
{
    if (&__rseq_offset != NULL && __rseq_size > 0) {
        char *thread = (char *)__builtin_thread_pointer();
        struct rseq_area *area = (struct rseq_area *)(void *)(thread + __rseq_offset);
        if (is_registered(area))
            return area;
    }
    store(&leave_hook, on_leave, RELAXED);
    if (!is_key_made || pthread_setspecific(leave_key, &own_area) != 0)
        return NULL;
    long result = system_call(SYS_rseq, (long)&own_area, AREA_BYTES, 0, SIGNATURE, 0, 0);
    return result == 0 ? &own_area : NULL;
}

int os_rseq_fence(void)
{
    return (int)system_call(SYS_membarrier, BARRIER_SEQUENCES, 0, 0, 0, 0, 0);
}
