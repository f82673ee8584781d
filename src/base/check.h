/*
 * check.h: our own mistakes. ASSERT checks a fact, VERIFY a whole structure; both vanish below
 * CHECKS 2.
 *
 * core/misuse.h reports the caller's mistakes.
 */
#ifndef CALM_BASE_CHECK_H
#define CALM_BASE_CHECK_H

#include <stdarg.h>

#include "base/attr.h"

/* Writes "calmalloc: " and the sentence to standard error and aborts. Formats as text_format(). */
NORETURN void check_stop(const char *format, ...) PRINTF_LIKE(1, 2);

/* check_stop() with `who` in place of "calmalloc: ". */
NORETURN void check_stop_list(const char *who, const char *format, va_list arguments)
    PRINTF_LIKE(2, 0);

/* The two kernel calls that base needs; os implements them. check_write writes `length` bytes at
 * `words` to standard error. */
void check_write(const char *words, size_t length);
NORETURN void check_abort(void);

/* What a walk returns: NULL when its invariants hold, else the sentence of the first that does not.
 */
typedef const char *verdict;

#define ASSERT(condition)                                                                          \
    do {                                                                                           \
        if (CHECKS >= 2 && unlikely(!(condition)))                                                 \
            check_stop("internal error, please report: %s (%s:%u)", #condition, __FILE__,          \
                       (unsigned)__LINE__);                                                        \
    } while (0)

#define VERIFY(walk)                                                                               \
    do {                                                                                           \
        verdict verdict_ = CHECKS >= 2 ? (walk) : NULL;                                            \
        if (unlikely(verdict_ != NULL))                                                            \
            check_stop("internal error, please report: %s (%s:%u)", verdict_, __FILE__,            \
                       (unsigned)__LINE__);                                                        \
    } while (0)

#endif
