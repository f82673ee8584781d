/*
 * watch.c: what the compiler calls before each access of code built with -fsanitize=thread. The
 * sanitizer's own runtime is not linked; these take its place and tell the machine.
 *
 * So plain loads and stores are seen as atomics are. Not seen: what the compiler proves private,
 * prefetches, and memset and memcpy where the compiler leaves them to the C library.
 */
#include <string.h>

#include "machine.h"

/* The sanitizer's names. Their types are those that the compiler expects. */
typedef int order;

#define WATCH_PLAIN(bytes)                                                                         \
    void __tsan_read##bytes(void *address);                                                        \
    void __tsan_read##bytes(void *address)                                                         \
    {                                                                                              \
        machine_access(address, bytes, ACCESS_LOAD);                                               \
    }                                                                                              \
    void __tsan_write##bytes(void *address);                                                       \
    void __tsan_write##bytes(void *address)                                                        \
    {                                                                                              \
        machine_access(address, bytes, ACCESS_STORE);                                              \
    }                                                                                              \
    void __tsan_unaligned_read##bytes(void *address);                                              \
    void __tsan_unaligned_read##bytes(void *address)                                               \
    {                                                                                              \
        machine_access(address, bytes, ACCESS_LOAD);                                               \
    }                                                                                              \
    void __tsan_unaligned_write##bytes(void *address);                                             \
    void __tsan_unaligned_write##bytes(void *address)                                              \
    {                                                                                              \
        machine_access(address, bytes, ACCESS_STORE);                                              \
    }                                                                                              \
    void __tsan_read_write##bytes(void *address);                                                  \
    void __tsan_read_write##bytes(void *address)                                                   \
    {                                                                                              \
        machine_access(address, bytes, ACCESS_STORE);                                              \
    }

WATCH_PLAIN(1)
WATCH_PLAIN(2)
WATCH_PLAIN(4)
WATCH_PLAIN(8)
WATCH_PLAIN(16)

/* A lock's word: 0 is free (os/lock.h). */
static void note_change(const void *word, uint64_t before, uint64_t after)
{
    if (before == 0 && after != 0)
        machine_lock_taken(word);
    else if (before != 0 && after == 0)
        machine_lock_freed(word);
}

#define WATCH_FETCH(bits, name, operator)                                                          \
    uint##bits##_t __tsan_atomic##bits##_##name(uint##bits##_t *word, uint##bits##_t value,        \
                                                order how);                                        \
    uint##bits##_t __tsan_atomic##bits##_##name(uint##bits##_t *word, uint##bits##_t value,        \
                                                order how)                                         \
    {                                                                                              \
        (void)how;                                                                                 \
        machine_access(word, sizeof *word, ACCESS_ATOMIC);                                         \
        uint##bits##_t before = *word;                                                             \
        *word = (uint##bits##_t)(before operator value);                                           \
        return before;                                                                             \
    }

#define WATCH_ATOMIC(bits)                                                                         \
    uint##bits##_t __tsan_atomic##bits##_load(const uint##bits##_t *word, order how);              \
    uint##bits##_t __tsan_atomic##bits##_load(const uint##bits##_t *word, order how)               \
    {                                                                                              \
        (void)how;                                                                                 \
        machine_access(word, sizeof *word, ACCESS_LOAD);                                           \
        return *word;                                                                              \
    }                                                                                              \
    void __tsan_atomic##bits##_store(uint##bits##_t *word, uint##bits##_t value, order how);       \
    void __tsan_atomic##bits##_store(uint##bits##_t *word, uint##bits##_t value, order how)        \
    {                                                                                              \
        /* On x86-64 and aarch64 only the strictest order makes a store dearer; rare here. */      \
        machine_access(word, sizeof *word,                                                         \
                       how == __ATOMIC_SEQ_CST ? ACCESS_ATOMIC : ACCESS_STORE);                    \
        *word = value;                                                                             \
    }                                                                                              \
    uint##bits##_t __tsan_atomic##bits##_exchange(uint##bits##_t *word, uint##bits##_t value,      \
                                                  order how);                                      \
    uint##bits##_t __tsan_atomic##bits##_exchange(uint##bits##_t *word, uint##bits##_t value,      \
                                                  order how)                                       \
    {                                                                                              \
        (void)how;                                                                                 \
        machine_access(word, sizeof *word, ACCESS_ATOMIC);                                         \
        uint##bits##_t before = *word;                                                             \
        note_change(word, before, value);                                                          \
        *word = value;                                                                             \
        return before;                                                                             \
    }                                                                                              \
    uint##bits##_t __tsan_atomic##bits##_compare_exchange_val(                                     \
        uint##bits##_t *word, uint##bits##_t expected, uint##bits##_t value, order how,            \
        order how_else);                                                                           \
    uint##bits##_t __tsan_atomic##bits##_compare_exchange_val(                                     \
        uint##bits##_t *word, uint##bits##_t expected, uint##bits##_t value, order how,            \
        order how_else)                                                                            \
    {                                                                                              \
        (void)how, (void)how_else;                                                                 \
        machine_access(word, sizeof *word, ACCESS_ATOMIC);                                         \
        uint##bits##_t before = *word;                                                             \
        if (before == expected) {                                                                  \
            note_change(word, before, value);                                                      \
            *word = value;                                                                         \
        }                                                                                          \
        return before;                                                                             \
    }                                                                                              \
    int __tsan_atomic##bits##_compare_exchange_strong(                                             \
        uint##bits##_t *word, uint##bits##_t *expected, uint##bits##_t value, order how,           \
        order how_else);                                                                           \
    int __tsan_atomic##bits##_compare_exchange_strong(                                             \
        uint##bits##_t *word, uint##bits##_t *expected, uint##bits##_t value, order how,           \
        order how_else)                                                                            \
    {                                                                                              \
        uint##bits##_t wanted = *expected;                                                         \
        *expected = __tsan_atomic##bits##_compare_exchange_val(word, wanted, value, how,           \
                                                               how_else);                          \
        return *expected == wanted;                                                                \
    }                                                                                              \
    WATCH_FETCH(bits, fetch_add, +)                                                                \
    WATCH_FETCH(bits, fetch_sub, -)                                                                \
    WATCH_FETCH(bits, fetch_or, |)                                                                 \
    WATCH_FETCH(bits, fetch_and, &)

WATCH_ATOMIC(8)
WATCH_ATOMIC(16)
WATCH_ATOMIC(32)
WATCH_ATOMIC(64)

void __tsan_read_range(void *address, size_t bytes);
void __tsan_read_range(void *address, size_t bytes)
{
    machine_access(address, bytes, ACCESS_LOAD);
}

void __tsan_write_range(void *address, size_t bytes);
void __tsan_write_range(void *address, size_t bytes)
{
    machine_access(address, bytes, ACCESS_STORE);
}

void *__tsan_memset(void *to, int byte, size_t bytes);
void *__tsan_memset(void *to, int byte, size_t bytes)
{
    if (bytes > 0)
        machine_access(to, bytes, ACCESS_STORE);
    return memset(to, byte, bytes);
}

void *__tsan_memcpy(void *to, const void *from, size_t bytes);
void *__tsan_memcpy(void *to, const void *from, size_t bytes)
{
    if (bytes > 0) {
        machine_access(from, bytes, ACCESS_LOAD);
        machine_access(to, bytes, ACCESS_STORE);
    }
    return memcpy(to, from, bytes);
}

/* Nothing to tell. */
void __tsan_init(void);
void __tsan_init(void) {}

void __tsan_func_entry(void *caller);
void __tsan_func_entry(void *caller)
{
    (void)caller;
}

void __tsan_func_exit(void);
void __tsan_func_exit(void) {}

void __tsan_atomic_signal_fence(order how);
void __tsan_atomic_signal_fence(order how)
{
    (void)how;
}

void __tsan_atomic_thread_fence(order how);
void __tsan_atomic_thread_fence(order how)
{
    (void)how;
}
