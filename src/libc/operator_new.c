/*
 * operator_new.c: C++ operator new and delete under their mangled names, so that the caller of `new` is the site.
 *
 * The C++ library need not be there: its new-handler and its way to throw bad_alloc are looked up weakly. This file is
 * compiled with unwind tables, so that an exception passes through. Names: Itanium C++ ABI; C++17 [new.delete];
 * the __hot_cold_t and __size_returning_new forms are LLVM's and P0901's.
 */
#define _GNU_SOURCE

#include <dlfcn.h>

#include "base/check.h"
#include "front/front.h"

typedef void (*new_handler)(void);

/* std::get_new_handler and std::__throw_bad_alloc. */
extern new_handler _ZSt15get_new_handlerv(void) __attribute__((weak));
extern NORETURN void _ZSt17__throw_bad_allocv(void) __attribute__((weak));

/*
 * The nothrow forms with a new-handler: the handler may throw, and C cannot catch. The C++ library's own nothrow forms
 * call the throwing form, which is ours, and catch what comes out; without them the handler is not asked.
 */
static COLD void *new_caught(size_t bytes, size_t align)
{
    static const char no_throw; /* stands for std::nothrow, whose value nobody reads */
    void *found = dlsym(RTLD_NEXT, align > 1 ? "_ZnwmSt11align_val_tRKSt9nothrow_t" : "_ZnwmRKSt9nothrow_t");
    if (found == NULL)
        return NULL;
    if (align > 1)
        return ((void *(*)(size_t, size_t, const void *))(uintptr_t)found)(bytes, align, &no_throw);
    return ((void *(*)(size_t, const void *))(uintptr_t)found)(bytes, &no_throw);
}

/* The C++ rule: ask the handler for memory until there is some, no handler is set, or it throws. */
static COLD void *new_failed(size_t bytes, size_t align, uint32_t cohort_offset, bool may_throw)
{
    for (;;) {
        new_handler handler = _ZSt15get_new_handlerv != NULL ? _ZSt15get_new_handlerv() : NULL;
        if (handler == NULL)
            break;
        if (!may_throw)
            return new_caught(bytes, align);
        handler();
        void *block = bytes > PTRDIFF_MAX ? NULL
                      : align > 1         ? heap_alloc_aligned(bytes, align, cohort_offset)
                                          : heap_alloc_slow(bytes, cohort_offset);
        if (block != NULL)
            return block;
    }
    if (!may_throw)
        return NULL;
    if (_ZSt17__throw_bad_allocv != NULL)
        _ZSt17__throw_bad_allocv();
    check_stop("operator new of %zu bytes failed, and no C++ library is there to throw std::bad_alloc", bytes);
}

static NOINLINE void *new_missed(size_t bytes, uint32_t cohort_offset, bool may_throw)
{
    void *block = heap_alloc_slow(bytes, cohort_offset);
    return likely(block != NULL) ? block : new_failed(bytes, 1, cohort_offset, may_throw);
}

ALWAYS_INLINE void *new_plain(size_t bytes, const void *site, bool may_throw)
{
    uint32_t cohort_offset = site_offset(site);
    void *block = heap_alloc_fast(bytes, cohort_offset);
    return likely(block != NULL) ? block : new_missed(bytes, cohort_offset, may_throw);
}

static void *new_aligned(size_t bytes, size_t align, const void *site, bool may_throw)
{
    uint32_t cohort_offset = site_offset(site);
    void *block = bytes > PTRDIFF_MAX ? NULL : heap_alloc_aligned(bytes, align, cohort_offset);
    return likely(block != NULL) ? block : new_failed(bytes, align, cohort_offset, may_throw);
}

struct sized_block {
    void *block;
    size_t bytes;
};

static struct sized_block with_size(void *block, size_t bytes)
{
    return (struct sized_block){block, block == NULL ? 0 : heap_usable(block) > bytes ? heap_usable(block) : bytes};
}

#define DEFINE(result, name, parameters)                                                                               \
    EXPORT result name parameters;                                                                                     \
    EXPORT result name parameters

typedef uint8_t hot_cold; /* __hot_cold_t: how hot, 0 to 255; a hint we have no use for yet */
typedef const void *nothrow;

/* new: plain, array; nothrow; aligned; with a hot-cold hint. */
DEFINE(void *, _Znwm, (size_t n)) { return new_plain(n, CALLER, true); }
DEFINE(void *, _Znam, (size_t n)) { return new_plain(n, CALLER, true); }
DEFINE(void *, _ZnwmRKSt9nothrow_t, (size_t n, nothrow t)) { (void)t; return new_plain(n, CALLER, false); }
DEFINE(void *, _ZnamRKSt9nothrow_t, (size_t n, nothrow t)) { (void)t; return new_plain(n, CALLER, false); }
DEFINE(void *, _ZnwmSt11align_val_t, (size_t n, size_t a)) { return new_aligned(n, a, CALLER, true); }
DEFINE(void *, _ZnamSt11align_val_t, (size_t n, size_t a)) { return new_aligned(n, a, CALLER, true); }
DEFINE(void *, _ZnwmSt11align_val_tRKSt9nothrow_t, (size_t n, size_t a, nothrow t))
{
    (void)t;
    return new_aligned(n, a, CALLER, false);
}
DEFINE(void *, _ZnamSt11align_val_tRKSt9nothrow_t, (size_t n, size_t a, nothrow t))
{
    (void)t;
    return new_aligned(n, a, CALLER, false);
}
DEFINE(void *, _Znwm12__hot_cold_t, (size_t n, hot_cold h)) { (void)h; return new_plain(n, CALLER, true); }
DEFINE(void *, _Znam12__hot_cold_t, (size_t n, hot_cold h)) { (void)h; return new_plain(n, CALLER, true); }
DEFINE(void *, _ZnwmRKSt9nothrow_t12__hot_cold_t, (size_t n, nothrow t, hot_cold h))
{
    (void)t, (void)h;
    return new_plain(n, CALLER, false);
}
DEFINE(void *, _ZnamRKSt9nothrow_t12__hot_cold_t, (size_t n, nothrow t, hot_cold h))
{
    (void)t, (void)h;
    return new_plain(n, CALLER, false);
}
DEFINE(void *, _ZnwmSt11align_val_t12__hot_cold_t, (size_t n, size_t a, hot_cold h))
{
    (void)h;
    return new_aligned(n, a, CALLER, true);
}
DEFINE(void *, _ZnamSt11align_val_t12__hot_cold_t, (size_t n, size_t a, hot_cold h))
{
    (void)h;
    return new_aligned(n, a, CALLER, true);
}
DEFINE(void *, _ZnwmSt11align_val_tRKSt9nothrow_t12__hot_cold_t, (size_t n, size_t a, nothrow t, hot_cold h))
{
    (void)t, (void)h;
    return new_aligned(n, a, CALLER, false);
}
DEFINE(void *, _ZnamSt11align_val_tRKSt9nothrow_t12__hot_cold_t, (size_t n, size_t a, nothrow t, hot_cold h))
{
    (void)t, (void)h;
    return new_aligned(n, a, CALLER, false);
}

/* new that also returns what may be used. */
DEFINE(struct sized_block, __size_returning_new, (size_t n))
{
    return with_size(new_plain(n, CALLER, true), n);
}
DEFINE(struct sized_block, __size_returning_new_hot_cold, (size_t n, hot_cold h))
{
    (void)h;
    return with_size(new_plain(n, CALLER, true), n);
}
DEFINE(struct sized_block, __size_returning_new_aligned, (size_t n, size_t a))
{
    return with_size(new_aligned(n, a, CALLER, true), n);
}
DEFINE(struct sized_block, __size_returning_new_aligned_hot_cold, (size_t n, size_t a, hot_cold h))
{
    (void)h;
    return with_size(new_aligned(n, a, CALLER, true), n);
}

/* delete: plain, array; nothrow; sized; aligned; both. */
DEFINE(void, _ZdlPv, (void *p)) { heap_free(p); }
DEFINE(void, _ZdaPv, (void *p)) { heap_free(p); }
DEFINE(void, _ZdlPvRKSt9nothrow_t, (void *p, nothrow t)) { (void)t; heap_free(p); }
DEFINE(void, _ZdaPvRKSt9nothrow_t, (void *p, nothrow t)) { (void)t; heap_free(p); }
DEFINE(void, _ZdlPvm, (void *p, size_t n)) { heap_free_sized(p, n, 1); }
DEFINE(void, _ZdaPvm, (void *p, size_t n)) { heap_free_sized(p, n, 1); }
DEFINE(void, _ZdlPvSt11align_val_t, (void *p, size_t a)) { (void)a; heap_free(p); }
DEFINE(void, _ZdaPvSt11align_val_t, (void *p, size_t a)) { (void)a; heap_free(p); }
DEFINE(void, _ZdlPvSt11align_val_tRKSt9nothrow_t, (void *p, size_t a, nothrow t)) { (void)a, (void)t; heap_free(p); }
DEFINE(void, _ZdaPvSt11align_val_tRKSt9nothrow_t, (void *p, size_t a, nothrow t)) { (void)a, (void)t; heap_free(p); }
DEFINE(void, _ZdlPvmSt11align_val_t, (void *p, size_t n, size_t a)) { heap_free_sized(p, n, a); }
DEFINE(void, _ZdaPvmSt11align_val_t, (void *p, size_t n, size_t a)) { heap_free_sized(p, n, a); }
