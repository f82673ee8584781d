/* In place of base/atomic.h for the value analysis, which knows no atomics: the same words, by one
 * thread. */
#ifndef CALM_BASE_ATOMIC_H
#define CALM_BASE_ATOMIC_H

#include <stdint.h>

#define _Atomic
enum { RELAXED, ACQUIRE, RELEASE, ACQ_REL };

#define load(word, order) (*(word))
#define store(word, value, order) ((void)(*(word) = (value)))
#define fetch_add(word, value, order) ((void)(*(word) += (value)))
#define fetch_or(word, value, order) plain_or((word), (value))
#define fetch_and(word, value, order) plain_and((word), (value))
#define __atomic_load_n(word, order) (*(word))
#define __atomic_store_n(word, value, order) ((void)(*(word) = (value)))

static inline uint64_t plain_or(uint64_t *word, uint64_t value)
{
    uint64_t before = *word;
    *word |= value;
    return before;
}

static inline uint64_t plain_and(uint64_t *word, uint64_t value)
{
    uint64_t before = *word;
    *word &= value;
    return before;
}

#endif
