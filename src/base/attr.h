/*
 * attr.h: compiler attributes and build constants.
 *
 * The only file of base with conditionals. CHECKS is a constant, so both branches of `if (CHECKS
 * ...)` always compile. 0: no checks of the caller. 1: the cheap checks that ship by default. 2:
 * also our own assertions.
 */
#ifndef CALM_BASE_ATTR_H
#define CALM_BASE_ATTR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef CALM_CHECKS
#define CALM_CHECKS 1
#endif

enum { CHECKS = CALM_CHECKS };
_Static_assert(CHECKS >= 0 && CHECKS <= 2, "CALM_CHECKS is 0, 1 or 2");

/* Blocks that each bin may cache from the start, in libraries that the lab compares
 * (bench/README.md). 0, the default: misses decide. */
#ifndef CALM_CACHE_BLOCKS
#define CALM_CACHE_BLOCKS 0
#endif
enum { BLOCKS_FIXED = CALM_CACHE_BLOCKS };
_Static_assert(sizeof(void *) == 8, "calmalloc needs 64-bit addresses");

/* Options of a build, in the syntax of CALM_OPTIONS, which is read afterwards. */
#ifndef CALM_BUILD_OPTIONS
#define CALM_BUILD_OPTIONS ""
#endif

enum { CACHE_LINE_BYTES = 64 };

/* Sanitizers watch every access, and their run time has address space of its own. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define IS_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define IS_SANITIZED 1
#endif
#ifndef IS_SANITIZED
#define IS_SANITIZED 0
#endif

#define likely(condition) __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define NEVER_NULL __attribute__((returns_nonnull))
#define NOINLINE __attribute__((noinline))
#define COLD __attribute__((noinline, cold))
#define NORETURN __attribute__((noreturn))
#define PRINTF_LIKE(string, first) __attribute__((format(printf, string, first)))
#define EXPORT __attribute__((visibility("default")))
/* For objects that only assembly names. */
#define KEPT __attribute__((used))
/* For data of the fast paths: addressed directly. */
#define HIDDEN __attribute__((visibility("hidden")))
/* Makes the compiler compute an integer variable here, not later from its operands. */
#define computed_here(variable) __asm__("" : "+r"(variable))
/* Before a short loop over many words: unrolls by four. */
#define UNROLLED _Pragma("GCC unroll 4")
/* cpu_relax: in a spin loop, lets the core's other thread run. ADDRESS_OPERAND: the operand
 * constraint for the address of a symbol that no other file of the program can replace.
 * prefetch_to_write: fetches a line for a write; any address is allowed. */
#if defined(__x86_64__)
#define cpu_relax() __builtin_ia32_pause()
#define prefetch_to_write(address) __asm__ volatile("prefetchw %0" ::"m"(*(const char *)(address)))
enum { CODE_ALIGN_LOG2 = 0, MACHINE_IS_X86_64 = 1 };
#define ADDRESS_OPERAND "i"
#else
#define cpu_relax() __asm__ volatile("isb" ::: "memory")
#define prefetch_to_write(address) __builtin_prefetch(address, 1)
enum { CODE_ALIGN_LOG2 = 2, MACHINE_IS_X86_64 = 0 };
#define ADDRESS_OPERAND "S"
#endif
/* The enclosing function's return address. RETURN_ADDRESS_AGAIN reads it anew, so that the fast
 * path need not keep it in a register for a slow path; clang would set up a frame for that. */
#define RETURN_ADDRESS __builtin_return_address(0)
#if defined(__x86_64__) && !defined(__clang__)
#define RETURN_ADDRESS_AGAIN                                                                       \
    (*(void *const volatile *)((char *)__builtin_dwarf_cfa() - sizeof(void *)))
#else
#define RETURN_ADDRESS_AGAIN RETURN_ADDRESS
#endif
/* The start of the caller's frame: the address just above the enclosing function's return address.
 */
#define CALLER_FRAME __builtin_dwarf_cfa()
#define CONSTRUCTOR_FIRST __attribute__((constructor(101)))
#define DESTRUCTOR_LAST __attribute__((destructor(101)))

#endif
