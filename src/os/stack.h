/*
 * stack.h: return addresses of the calling thread's callers.
 *
 * Uses the unwind tables that compilers leave in every module, and frame pointers for functions
 * without tables. Reads the program's memory only after the kernel confirms that it is readable, so
 * a broken stack ends the walk without a fault. Design: docs/design/stacks.md
 */
#ifndef CALM_OS_STACK_H
#define CALM_OS_STACK_H

#include "base/attr.h"

/*
 * Fills `callers` with at most `max` return addresses, innermost first, and returns how many. The
 * first is the address that the caller of os_stack returns to. After a signal, the list holds the
 * kernel's return from the handler, then the interrupted instruction.
 *
 * Allocates nothing, takes no lock, preserves errno. Safe in signal handlers, on any stack with 4
 * KiB left, and in the child of a fork or vfork. Cost: a fraction of a microsecond per frame; a
 * kernel entry for each page of stack that the walk crosses.
 */
size_t os_stack(uintptr_t *callers, size_t max);

/*
 * Like os_stack, starting at a call that is known to return to `caller` with the stack pointer
 * `sp`, on this stack. Returns 0 if the walk needs registers that inner frames may have saved, or
 * if `sp` is invalid: call os_stack then. Cost: a tenth of os_stack's.
 */
size_t os_stack_from(uintptr_t caller, uintptr_t sp, uintptr_t *callers, size_t max);

/* A return address, and where it was found. */
struct os_caller {
    uintptr_t address; /* return address                                    */
    uintptr_t sp;      /* stack pointer after the return; 0: unknown        */
    uintptr_t kept_at; /* the stack word that holds the address; 0: unknown */
    bool is_fixed;     /* sp and kept_at are at constant distances from the previous sp for every
                          call there, by the unwind tables */
    bool is_told;      /* unwind tables led here at every step: no frame pointer outside the
                          tables and no signal record was used */
};

/*
 * Like os_stack, with places, from the caller whose address is `first` on outwards. Returns 0 if
 * `first` is not among the innermost 16.
 */
size_t os_callers(uintptr_t first, struct os_caller *callers, size_t max);

/*
 * The return addresses from `first` on outwards, as far as unwind tables alone lead. At most `max`,
 * and 8. `first` is the return address of a function that called this one, not in a tail call, and
 * `first_sp` the stack pointer then. 0: the tables do not lead there. Cost: on x86-64, some 15
 * instructions per frame of the program, the C library and this library after an earlier walk; else
 * the cost of os_callers.
 */
size_t os_stack_told(uintptr_t first, uintptr_t first_sp, uintptr_t *callers, size_t max);

enum { OS_STACK_PAGE = 4096 }; /* smallest page size */

/* Slow path of os_stack_word: asks the kernel whether the word is readable, unless the last call
 * read the same page. */
uintptr_t os_stack_word_far(uintptr_t at);

/* A return address on an aarch64 stack may carry a signature in its high bits. The instruction, a
 * hint that older processors ignore, removes the signature. */
ALWAYS_INLINE uintptr_t os_code_address(uintptr_t word)
{
#if defined(__aarch64__)
    register uintptr_t link __asm__("x30") = word;
    __asm__("hint #7" : "+r"(link)); /* xpaclri */
    return link;
#else
    return word;
#endif
}

/* Whether the word at `at` is in the page of `sp`, which is readable. */
ALWAYS_INLINE bool os_stack_is_near(uintptr_t sp, uintptr_t at)
{
    return (at ^ sp) < OS_STACK_PAGE;
}

/*
 * Reads the word at `at`, a multiple of 8 above `sp`, of the calling thread's stack, without a
 * walk: a return address, without its signature. `at` may lie beyond the stack: returns 0 for
 * unreadable memory, and never faults. Cost: a load; a kernel entry if the page is neither that of
 * `sp` nor that of the last call.
 */
ALWAYS_INLINE uintptr_t os_stack_word(uintptr_t sp, uintptr_t at)
{
    if (unlikely(!os_stack_is_near(sp, at)))
        return os_stack_word_far(at);
    return os_code_address(*(const volatile uintptr_t *)at);
}

#endif
