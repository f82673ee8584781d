/*
 * rseq.c: whether threads can have restartable sequences here, and each thread's area.
 *
 * glibc registers an area for each thread since 2.35. Otherwise a thread registers one in
 * thread-local storage, and unregisters it before that storage is freed.
 */
#define _GNU_SOURCE

#include "os/rseq.h"

#include <errno.h>
#include <pthread.h>

#include "os/linux/auxiliary.h"
#include "os/linux/syscall.h"
#include "os/os.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HAS_SEQUENCES 0 /* thread sanitizer does not see stores in assembly */
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

/* glibc's, if present. */
extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

static _Thread_local struct rseq_area own_area __attribute__((aligned(AREA_BYTES)));
static pthread_key_t leave_key;
static _Atomic uint32_t key_state;
static void (*_Atomic leave_hook)(void);

enum { KEY_NOT_YET, KEY_IN_MAKING, KEY_MADE, KEY_REFUSED };

static long own_area_call(int flags)
{
    return system_call(SYS_rseq, (long)&own_area, AREA_BYTES, flags, SIGNATURE, 0, 0);
}

/* Runs among the destructors of thread-specific data: the storage of `own_area` may be freed with
 * the thread, while the kernel still writes to it. */
static void leave(void *area)
{
    (void)area; /* own_area, as this is its thread */
    load(&leave_hook, RELAXED)();
    own_area_call(UNREGISTER);
}

/* The C library's area of this thread, or NULL. */
static struct rseq_area *given_area(void)
{
    if (&__rseq_offset == NULL || __rseq_size == 0)
        return NULL;
    char *thread = (char *)__builtin_thread_pointer();
    struct rseq_area *area = (struct rseq_area *)(void *)(thread + __rseq_offset);
    return (int32_t)area->cpu_id >= 0 ? area : NULL;
}

/* A thread that the C library did not make has storage that is not registered, perhaps zeroed,
 * which reads as CPU 0 and core 0. */
static bool is_registered(const struct rseq_area *area)
{
    return area->cpu_id != 0 || area->core != 0 || os_thread_is_noted();
}

/* Calls no function of the C library, which may be interposed and allocate: the heap is still
 * starting. */
int os_rseq_start(void)
{
    if (!HAS_SEQUENCES || auxiliary_value(AUX_FEATURE_BYTES) < AREA_BYTES_WITH_CORE)
        return -ENOSYS;
    if (given_area() == NULL) {
        long result = own_area_call(0);
        if (result != 0)
            return (int)result;
        own_area_call(UNREGISTER);
    }
    return (int)system_call(SYS_membarrier, BARRIER_REGISTER, 0, 0, 0, 0, 0);
}

/* Makes the key when a thread first needs it. False: there is none, or another thread is making it.
 */
static bool has_key(void)
{
    uint32_t state = KEY_NOT_YET;
    if (compare_swap(&key_state, &state, KEY_IN_MAKING, ACQUIRE, ACQUIRE)) {
        state = pthread_key_create(&leave_key, leave) == 0 ? KEY_MADE : KEY_REFUSED;
        store(&key_state, state, RELEASE);
    }
    return state == KEY_MADE;
}

struct rseq_area *os_rseq_join(void (*on_leave)(void))
{
    struct rseq_area *area = given_area();
    if (area != NULL && is_registered(area))
        return area;
    store(&leave_hook, on_leave, RELAXED);
    bool is_hooked = has_key() && pthread_setspecific(leave_key, &own_area) == 0;
    return is_hooked && own_area_call(0) == 0 ? &own_area : NULL;
}

int os_rseq_fence(void)
{
    return (int)system_call(SYS_membarrier, BARRIER_SEQUENCES, 0, 0, 0, 0, 0);
}
