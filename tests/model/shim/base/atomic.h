/*
 * atomic.h for models: found before the real base/atomic.h, so that shipped code stops at every
 * atomic operation and asks the explorer who goes on. The operations are the real ones; each
 * happens whole, in one total order.
 */
#ifndef CALM_BASE_ATOMIC_H
#define CALM_BASE_ATOMIC_H

#include <stdatomic.h>

void explore_point(void);

#define RELAXED memory_order_relaxed
#define ACQUIRE memory_order_acquire
#define RELEASE memory_order_release
#define ACQ_REL memory_order_acq_rel
#define SEQ_CST memory_order_seq_cst

#define load(word, order) (explore_point(), atomic_load_explicit((word), (order)))
#define load_to_compare(word) load((word), RELAXED)
#define store(word, value, order) (explore_point(), atomic_store_explicit((word), (value), (order)))
#define fetch_add(word, value, order)                                                              \
    (explore_point(), atomic_fetch_add_explicit((word), (value), (order)))
#define fetch_sub(word, value, order)                                                              \
    (explore_point(), atomic_fetch_sub_explicit((word), (value), (order)))
#define fetch_or(word, value, order)                                                               \
    (explore_point(), atomic_fetch_or_explicit((word), (value), (order)))
#define fetch_and(word, value, order)                                                              \
    (explore_point(), atomic_fetch_and_explicit((word), (value), (order)))
#define exchange(word, value, order)                                                               \
    (explore_point(), atomic_exchange_explicit((word), (value), (order)))
#define compare_swap(word, expected, value, success, failure)                                      \
    (explore_point(),                                                                              \
     atomic_compare_exchange_strong_explicit((word), (expected), (value), (success), (failure)))

#endif
