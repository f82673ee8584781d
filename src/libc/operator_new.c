/*
 * operator_new.c: the four basic C++ operators under their mangled names, so that the caller of
 * `new` is the site, and the common halves of the others (operator_forms.c).
 *
 * The C++ library need not be there: its new-handler and its way to throw bad_alloc are looked up
 * weakly. This file is compiled with unwind tables, so that an exception passes through. Names:
 * Itanium C++ ABI; C++17 [new.delete]; the __hot_cold_t and __size_returning_new forms are LLVM's
 * and P0901's.
 */
#define _GNU_SOURCE

#include <dlfcn.h>

#include "base/check.h"
#include "front/front.h"
#include "libc/operator.h"

typedef void (*new_handler)(void);

/* std::get_new_handler and std::__throw_bad_alloc. */
extern new_handler _ZSt15get_new_handlerv(void) __attribute__((weak));
extern NORETURN void _ZSt17__throw_bad_allocv(void) __attribute__((weak));

/*
 * The nothrow forms with a new-handler: the handler may throw, and C cannot catch. The C++
 * library's own nothrow forms call the throwing form, which is ours, and catch what comes out;
 * without them the handler is not asked.
 */
COLD void *operator_new_caught(size_t bytes, size_t align)
{
    static const char no_throw; /* stands for std::nothrow, whose value nobody reads */
    void *found = dlsym(RTLD_NEXT,
                        align > 1 ? "_ZnwmSt11align_val_tRKSt9nothrow_t" : "_ZnwmRKSt9nothrow_t");
    if (found == NULL)
        return NULL;
    if (align > 1)
        return ((void *(*)(size_t, size_t, const void *))(uintptr_t)found)(bytes, align, &no_throw);
    return ((void *(*)(size_t, const void *))(uintptr_t)found)(bytes, &no_throw);
}

/* The C++ rule: ask the handler for memory until there is some, no handler is set, or it throws. */
static COLD void *new_failed(size_t bytes, size_t align, const void *site, const void *frame,
                             bool may_throw)
{
    for (;;) {
        new_handler handler = _ZSt15get_new_handlerv != NULL ? _ZSt15get_new_handlerv() : NULL;
        if (handler == NULL)
            break;
        if (!may_throw)
            return operator_new_caught(bytes, align);
        handler();
        void *block = bytes > PTRDIFF_MAX ? NULL
                      : align > 1         ? site_alloc_aligned(bytes, align, site, frame)
                                          : site_alloc_slow(bytes, site, frame);
        if (block != NULL)
            return block;
    }
    if (!may_throw)
        return NULL;
    if (_ZSt17__throw_bad_allocv != NULL)
        _ZSt17__throw_bad_allocv();
    check_stop(
        "operator new of %zu bytes failed, and no C++ library is there to throw std::bad_alloc",
        bytes);
}

NOINLINE void *operator_new_missed(size_t bytes, const void *site, const void *frame,
                                   bool may_throw, struct cache_miss at)
{
    void *block = second_alloc_again(at, site);
    if (likely(block != NULL))
        return block;
    block = second_alloc_through(at, site, frame);
    return block != NULL ? block : operator_new_slow(bytes, site, frame, may_throw);
}

NOINLINE void *operator_new_slow(size_t bytes, const void *site, const void *frame, bool may_throw)
{
    void *block = site_alloc_slow(bytes, site, frame);
    return likely(block != NULL) ? block : new_failed(bytes, 1, site, frame, may_throw);
}

void *operator_new_aligned(size_t bytes, size_t align, const void *site, const void *frame,
                           bool may_throw)
{
    void *block = bytes > PTRDIFF_MAX ? NULL : site_alloc_aligned(bytes, align, site, frame);
    return likely(block != NULL) ? block : new_failed(bytes, align, site, frame, may_throw);
}

EXPORT WEAK void *_Znwm(size_t bytes)
{
    return operator_new_plain(bytes, true);
}

EXPORT WEAK void *_ZnwmSt11align_val_t(size_t bytes, size_t align)
{
    return operator_new_aligned(bytes, align, CALLER, CALLER_FRAME, true);
}

EXPORT WEAK void _ZdlPv(void *block)
{
    heap_free(block);
}

EXPORT WEAK void _ZdlPvSt11align_val_t(void *block, size_t align)
{
    (void)align;
    heap_free(block);
}

/* The same four where nobody can replace them, to find out whether somebody did. */
void *operator_own_new(size_t) __attribute__((alias("_Znwm"), visibility("hidden")));
void *operator_own_new_aligned(size_t, size_t)
    __attribute__((alias("_ZnwmSt11align_val_t"), visibility("hidden")));
void operator_own_delete(void *) __attribute__((alias("_ZdlPv"), visibility("hidden")));
void operator_own_delete_aligned(void *, size_t)
    __attribute__((alias("_ZdlPvSt11align_val_t"), visibility("hidden")));
