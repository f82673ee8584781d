/*
 * stdatomic.h for C++ tests: lets a C++17 program include our C17 headers.
 *
 * An _Atomic object and a plain one of the same type have the same size and alignment up to eight
 * bytes on the machines we support, so a test may see the plain type and reach it by the compiler's
 * own atomic operations. The library itself is compiled as C and never sees this file.
 */
#ifndef CALM_TESTS_STDATOMIC_H
#define CALM_TESTS_STDATOMIC_H

/* Our headers are read inside extern "C"; templates are not allowed there. */
extern "C++" {
#include <atomic>

#define _Atomic

using std::memory_order;
using std::memory_order_acq_rel;
using std::memory_order_acquire;
using std::memory_order_relaxed;
using std::memory_order_release;
using std::memory_order_seq_cst;

typedef bool atomic_bool;
typedef int atomic_int;
typedef unsigned atomic_uint;

template <class T> static inline T calm_test_load(const T *word, int order)
{
    T value;
    __atomic_load(word, &value, order);
    return value;
}

template <class T> struct calm_test_same {
    typedef T type;
};

template <class T>
static inline void calm_test_store(T *word, typename calm_test_same<T>::type value, int order)
{
    __atomic_store(word, &value, order);
}

} /* extern "C++" */

#define atomic_load_explicit(word, order) calm_test_load((word), (order))
#define atomic_store_explicit(word, value, order) calm_test_store((word), (value), (order))
#define atomic_fetch_add_explicit(word, value, order) __atomic_fetch_add((word), (value), (order))
#define atomic_fetch_sub_explicit(word, value, order) __atomic_fetch_sub((word), (value), (order))
#define atomic_fetch_or_explicit(word, value, order) __atomic_fetch_or((word), (value), (order))
#define atomic_fetch_and_explicit(word, value, order) __atomic_fetch_and((word), (value), (order))
#define atomic_exchange_explicit(word, value, order) __atomic_exchange_n((word), (value), (order))
#define atomic_compare_exchange_strong_explicit(word, expected, value, success, failure)           \
    __atomic_compare_exchange_n((word), (expected), (value), false, (success), (failure))
#define atomic_compare_exchange_weak_explicit(word, expected, value, success, failure)             \
    __atomic_compare_exchange_n((word), (expected), (value), true, (success), (failure))
#define atomic_thread_fence(order) __atomic_thread_fence(order)

#endif
