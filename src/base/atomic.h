/*
 * atomic.h: short names for the standard's atomics, so that each line shows its memory order.
 *
 * Words that fast paths share with readers on other threads are loaded and stored relaxed, which
 * costs no more than a plain access and keeps the program free of data races.
 */
#ifndef CALM_BASE_ATOMIC_H
#define CALM_BASE_ATOMIC_H

#include <stdatomic.h>

#include "base/attr.h"

#define RELAXED memory_order_relaxed
#define ACQUIRE memory_order_acquire
#define RELEASE memory_order_release
#define ACQ_REL memory_order_acq_rel
#define SEQ_CST memory_order_seq_cst

#define load(word, order) atomic_load_explicit((word), (order))
/* A relaxed load of a size_t for a comparison: compilers make two instructions of an atomic load
 * and a comparison, and one of a plain load. A sanitizer needs the atomic load. */
typedef size_t __attribute__((may_alias)) compared_word;
#define load_to_compare(word)                                                                      \
    (IS_SANITIZED ? load((word), RELAXED) : *(const compared_word *)(uintptr_t)(word))
#define store(word, value, order) atomic_store_explicit((word), (value), (order))
#define fetch_add(word, value, order) atomic_fetch_add_explicit((word), (value), (order))
#define fetch_sub(word, value, order) atomic_fetch_sub_explicit((word), (value), (order))
#define fetch_or(word, value, order) atomic_fetch_or_explicit((word), (value), (order))
#define fetch_and(word, value, order) atomic_fetch_and_explicit((word), (value), (order))
#define exchange(word, value, order) atomic_exchange_explicit((word), (value), (order))
#define compare_swap(word, expected, value, success, failure)                                      \
    atomic_compare_exchange_strong_explicit((word), (expected), (value), (success), (failure))

#endif
