/*
 * operator_new.c: the four basic C++ operators under their mangled names, so that the caller of
 * `new` is the site, and the functions shared with operator_forms.c.
 *
 * When a request fails, cxx_library.c finds the C++ library, which calls the new-handler and
 * throws. This file is compiled with unwind tables, so that an exception passes through.
 * Names: Itanium C++ ABI; C++17 [new.delete]; the __hot_cold_t and __size_returning_new forms are
 * LLVM's and P0901's.
 */
#include "base/check.h"
#include "front/front.h"
#include "libc/cxx_library.h"
#include "libc/operator.h"

static const char no_throw; /* stands for std::nothrow, whose value is never read */

static const char *name_of_form(bool is_aligned, bool may_throw)
{
    static const char *const names[2][2] = {
        {"_ZnwmRKSt9nothrow_t", "_Znwm"},
        {"_ZnwmSt11align_val_tRKSt9nothrow_t", "_ZnwmSt11align_val_t"},
    };
    return names[is_aligned][may_throw];
}

typedef void *(*form_plain)(size_t bytes, const void *unused);
typedef void *(*form_aligned)(size_t bytes, size_t align, const void *unused);

/* Calls the library's own operator, which calls malloc (ours), then the new-handler, and throws or
 * catches. Throwing forms ignore the last argument. A library may round a size near SIZE_MAX up to
 * 0, so a refused size is capped at PTRDIFF_MAX, which also fails. */
static void *call_form(cxx_function form, size_t bytes, size_t align)
{
    bytes = size_min(bytes, PTRDIFF_MAX);
    return align > 1 ? ((form_aligned)form)(bytes, align, &no_throw)
                     : ((form_plain)form)(bytes, &no_throw);
}

COLD void *operator_new_caught(size_t bytes, size_t align, const void *site)
{
    struct cxx_library library;
    bool is_found = cxx_library_find(site, name_of_form(align > 1, false), &library);
    return is_found ? call_form(library.operator_form, bytes, align) : NULL;
}

/* The C++ rule: call the handler until there is memory, no handler is set, or it throws. C cannot
 * catch an exception, so with no library but the linked parts, the nothrow forms do not call the
 * handler. */
static void *new_failed_linked(size_t bytes, size_t align, const void *site, const void *frame,
                               bool may_throw)
{
    if (!may_throw)
        return NULL;
    for (cxx_new_handler handler; (handler = cxx_linked_handler()) != NULL;) {
        handler();
        void *block = bytes > PTRDIFF_MAX ? NULL
                      : align > 1         ? site_alloc_aligned(bytes, align, site, frame)
                                          : site_alloc_slow(bytes, site, frame);
        if (block != NULL)
            return block;
    }
    cxx_throw_bad_alloc();
    check_stop(
        "operator new of %zu bytes failed, and no C++ library is there to throw std::bad_alloc",
        bytes);
}

static COLD void *new_failed(size_t bytes, size_t align, const void *site, const void *frame,
                             bool may_throw)
{
    struct cxx_library library;
    if (!cxx_library_find(site, name_of_form(align > 1, may_throw), &library))
        return new_failed_linked(bytes, align, site, frame, may_throw);
    if (!may_throw && library.handler() == NULL)
        return NULL;
    return call_form(library.operator_form, bytes, align);
}

NOINLINE void *operator_new_missed(size_t bytes, const void *site, const void *frame,
                                   bool may_throw, struct cache_miss at)
{
    void *block = second_alloc_retry(at, site);
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

/* Aliases of the four that no program can replace: is_ours() compares against them. */
void *operator_own_new(size_t) __attribute__((alias("_Znwm"), visibility("hidden")));
void *operator_own_new_aligned(size_t, size_t)
    __attribute__((alias("_ZnwmSt11align_val_t"), visibility("hidden")));
void operator_own_delete(void *) __attribute__((alias("_ZdlPv"), visibility("hidden")));
void operator_own_delete_aligned(void *, size_t)
    __attribute__((alias("_ZdlPvSt11align_val_t"), visibility("hidden")));
