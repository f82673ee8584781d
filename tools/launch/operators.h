/*
 * operators.h: C++'s forms of new and delete for a library that is preloaded before an allocator.
 *
 * Whoever includes it has defined NEW(name, parameters, arguments) and NEW_ALIGNED(...), which
 * define one form of new by `bytes`, and by `align` and `bytes`. Those of delete free.
 */
#ifndef CALM_TOOLS_OPERATORS_H
#define CALM_TOOLS_OPERATORS_H

#define DELETE(name, parameters)                                                                   \
    void name parameters;                                                                          \
    void name parameters                                                                           \
    {                                                                                              \
        free(block);                                                                               \
    }

#define UNUSED __attribute__((unused))

NEW(_Znwm, (size_t bytes), (bytes))
NEW(_Znam, (size_t bytes), (bytes))
NEW(_ZnwmRKSt9nothrow_t, (size_t bytes, const void *tag), (bytes, tag))
NEW(_ZnamRKSt9nothrow_t, (size_t bytes, const void *tag), (bytes, tag))
NEW_ALIGNED(_ZnwmSt11align_val_t, (size_t bytes, size_t align), (bytes, align))
NEW_ALIGNED(_ZnamSt11align_val_t, (size_t bytes, size_t align), (bytes, align))
NEW_ALIGNED(_ZnwmSt11align_val_tRKSt9nothrow_t, (size_t bytes, size_t align, const void *tag),
            (bytes, align, tag))
NEW_ALIGNED(_ZnamSt11align_val_tRKSt9nothrow_t, (size_t bytes, size_t align, const void *tag),
            (bytes, align, tag))
DELETE(_ZdlPv, (void *block))
DELETE(_ZdaPv, (void *block))
DELETE(_ZdlPvm, (void *block, size_t bytes UNUSED))
DELETE(_ZdaPvm, (void *block, size_t bytes UNUSED))
DELETE(_ZdlPvRKSt9nothrow_t, (void *block, const void *tag UNUSED))
DELETE(_ZdaPvRKSt9nothrow_t, (void *block, const void *tag UNUSED))
DELETE(_ZdlPvSt11align_val_t, (void *block, size_t align UNUSED))
DELETE(_ZdaPvSt11align_val_t, (void *block, size_t align UNUSED))
DELETE(_ZdlPvmSt11align_val_t, (void *block, size_t bytes UNUSED, size_t align UNUSED))
DELETE(_ZdaPvmSt11align_val_t, (void *block, size_t bytes UNUSED, size_t align UNUSED))

#endif
