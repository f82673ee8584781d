/*
 * operator_forms.c: the C++ operators new and delete that the standard defines through the basic
 * ones: array, nothrow, sized, hinted, size-returning.
 *
 * Each is as fast as the basic operator while that is ours, and calls the program's if replaced.
 * Names: Itanium C++ ABI; C++17 [new.delete]; the __hot_cold_t and __size_returning_new forms are
 * LLVM's and P0901's.
 */
#include "libc/operator.h"

ALWAYS_INLINE void *form_nothrow(size_t bytes)
{
    return is_new_ours() ? operator_new_plain(bytes, false)
                         : operator_new_caught(bytes, 1, RETURN_ADDRESS_AGAIN);
}

static void *form_nothrow_aligned(size_t bytes, size_t align, const void *site, const void *frame)
{
    return is_new_aligned_ours() ? operator_new_aligned(bytes, align, site, frame, false)
                                 : operator_new_caught(bytes, align, site);
}

ALWAYS_INLINE void form_sized(void *block, size_t bytes)
{
    if (is_ours((any_function)_ZdlPv, (any_function)operator_own_delete))
        heap_free_sized(block, bytes, 1);
    else
        _ZdlPv(block);
}

static void form_sized_aligned(void *block, size_t bytes, size_t align)
{
    if (is_ours((any_function)_ZdlPvSt11align_val_t, (any_function)operator_own_delete_aligned))
        heap_free_sized(block, bytes, align);
    else
        _ZdlPvSt11align_val_t(block, align);
}

#define DEFINE(result, name, parameters)                                                           \
    EXPORT result name parameters;                                                                 \
    EXPORT WEAK result name parameters

/* new: array and hinted. The basic operator is a tail call, so the caller stays the site. */
DEFINE(void *, _Znam, (size_t n))
{
    return _Znwm(n);
}

DEFINE(void *, _ZnamSt11align_val_t, (size_t n, size_t a))
{
    return _ZnwmSt11align_val_t(n, a);
}

DEFINE(void *, _Znwm12__hot_cold_t, (size_t n, hot_cold h))
{
    (void)h;
    return _Znwm(n);
}

DEFINE(void *, _Znam12__hot_cold_t, (size_t n, hot_cold h))
{
    (void)h;
    return _Znwm(n);
}

DEFINE(void *, _ZnwmSt11align_val_t12__hot_cold_t, (size_t n, size_t a, hot_cold h))
{
    (void)h;
    return _ZnwmSt11align_val_t(n, a);
}

DEFINE(void *, _ZnamSt11align_val_t12__hot_cold_t, (size_t n, size_t a, hot_cold h))
{
    (void)h;
    return _ZnwmSt11align_val_t(n, a);
}

/* new, nothrow. */
DEFINE(void *, _ZnwmRKSt9nothrow_t, (size_t n, nothrow t))
{
    (void)t;
    return form_nothrow(n);
}

DEFINE(void *, _ZnamRKSt9nothrow_t, (size_t n, nothrow t))
{
    (void)t;
    return form_nothrow(n);
}

DEFINE(void *, _ZnwmSt11align_val_tRKSt9nothrow_t, (size_t n, size_t a, nothrow t))
{
    (void)t;
    return form_nothrow_aligned(n, a, CALLER, CALLER_FRAME);
}

DEFINE(void *, _ZnamSt11align_val_tRKSt9nothrow_t, (size_t n, size_t a, nothrow t))
{
    (void)t;
    return form_nothrow_aligned(n, a, CALLER, CALLER_FRAME);
}

DEFINE(void *, _ZnwmRKSt9nothrow_t12__hot_cold_t, (size_t n, nothrow t, hot_cold h))
{
    (void)t, (void)h;
    return form_nothrow(n);
}

DEFINE(void *, _ZnamRKSt9nothrow_t12__hot_cold_t, (size_t n, nothrow t, hot_cold h))
{
    (void)t, (void)h;
    return form_nothrow(n);
}

DEFINE(void *, _ZnwmSt11align_val_tRKSt9nothrow_t12__hot_cold_t,
       (size_t n, size_t a, nothrow t, hot_cold h))
{
    (void)t, (void)h;
    return form_nothrow_aligned(n, a, CALLER, CALLER_FRAME);
}

DEFINE(void *, _ZnamSt11align_val_tRKSt9nothrow_t12__hot_cold_t,
       (size_t n, size_t a, nothrow t, hot_cold h))
{
    (void)t, (void)h;
    return form_nothrow_aligned(n, a, CALLER, CALLER_FRAME);
}

/* new that also returns the usable size. */
DEFINE(struct sized_block, __size_returning_new, (size_t n))
{
    bool ours = is_new_ours();
    return with_size(ours ? operator_new_plain(n, true) : _Znwm(n), n, ours);
}

DEFINE(struct sized_block, __size_returning_new_hot_cold, (size_t n, hot_cold h))
{
    (void)h;
    bool ours = is_new_ours();
    return with_size(ours ? operator_new_plain(n, true) : _Znwm(n), n, ours);
}

DEFINE(struct sized_block, __size_returning_new_aligned, (size_t n, size_t a))
{
    bool ours = is_new_aligned_ours();
    void *block = ours ? operator_new_aligned(n, a, CALLER, CALLER_FRAME, true)
                       : _ZnwmSt11align_val_t(n, a);
    return with_size(block, n, ours);
}

DEFINE(struct sized_block, __size_returning_new_aligned_hot_cold, (size_t n, size_t a, hot_cold h))
{
    (void)h;
    bool ours = is_new_aligned_ours();
    void *block = ours ? operator_new_aligned(n, a, CALLER, CALLER_FRAME, true)
                       : _ZnwmSt11align_val_t(n, a);
    return with_size(block, n, ours);
}

/* delete: array, nothrow, sized. */
DEFINE(void, _ZdaPv, (void *p))
{
    _ZdlPv(p);
}

DEFINE(void, _ZdlPvRKSt9nothrow_t, (void *p, nothrow t))
{
    (void)t;
    _ZdlPv(p);
}

DEFINE(void, _ZdaPvRKSt9nothrow_t, (void *p, nothrow t))
{
    (void)t;
    _ZdlPv(p);
}

DEFINE(void, _ZdlPvm, (void *p, size_t n))
{
    form_sized(p, n);
}

DEFINE(void, _ZdaPvm, (void *p, size_t n))
{
    form_sized(p, n);
}

DEFINE(void, _ZdaPvSt11align_val_t, (void *p, size_t a))
{
    _ZdlPvSt11align_val_t(p, a);
}

DEFINE(void, _ZdlPvSt11align_val_tRKSt9nothrow_t, (void *p, size_t a, nothrow t))
{
    (void)t;
    _ZdlPvSt11align_val_t(p, a);
}

DEFINE(void, _ZdaPvSt11align_val_tRKSt9nothrow_t, (void *p, size_t a, nothrow t))
{
    (void)t;
    _ZdlPvSt11align_val_t(p, a);
}

DEFINE(void, _ZdlPvmSt11align_val_t, (void *p, size_t n, size_t a))
{
    form_sized_aligned(p, n, a);
}

DEFINE(void, _ZdaPvmSt11align_val_t, (void *p, size_t n, size_t a))
{
    form_sized_aligned(p, n, a);
}
