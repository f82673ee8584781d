/*
 * stack.h: who called: the return addresses of the calling thread.
 *
 * Read by the unwind tables that compilers leave in every module, and by frame pointers where a
 * function has none. Memory of the program is read only after the kernel was asked whether it can
 * be, so a broken stack ends the walk and nothing else. Design: docs/design/stacks.md
 */
#ifndef CALM_OS_STACK_H
#define CALM_OS_STACK_H

#include "base/attr.h"

/*
 * Fills `callers` with at most `max` return addresses, innermost first, and returns how many. The
 * first is the address that the caller of os_stack returns to. Where a signal came in between, the
 * list has the kernel's return from the handler, then the instruction that was interrupted.
 *
 * Allocates nothing, takes no lock, leaves errno alone. Safe in signal handlers, on any stack with
 * 4 KiB left, and in the child of a fork or vfork. Cost: a fraction of a microsecond a frame; a
 * kernel entry for each page of stack that the walk crosses.
 */
size_t os_stack(uintptr_t *callers, size_t max);

/*
 * As os_stack, from a call on that is known to return to `caller`, with the stack pointer at `sp`
 * then, on this stack. 0 where it cannot be told without the frames inside, which may have saved
 * registers that count, and for an `sp` that is none: ask os_stack. Cost: a tenth of its.
 */
size_t os_stack_from(uintptr_t caller, uintptr_t sp, uintptr_t *callers, size_t max);

/* A return address, and where it was found. */
struct os_caller {
    uintptr_t address; /* that the call returns to                    */
    uintptr_t sp;      /* the stack pointer then; 0: nobody knows     */
    uintptr_t kept_at; /* the word of the stack that has the address; 0: nobody knows */
    bool is_fixed;     /* sp and kept_at are at distances from the sp before that hold for every
                          call there: the unwind tables say so */
    bool is_told;      /* unwind tables led here at every step: no frame pointer was believed that
                          they do not name, and no record of a signal */
};

/*
 * As os_stack, with places, from the caller whose address is `first` on outwards; 0 when it is not
 * among the innermost 16.
 */
size_t os_callers(uintptr_t first, struct os_caller *callers, size_t max);

/*
 * The return addresses from `first` on outwards, as far as unwind tables alone lead: no word that
 * they do not name is believed. At most `max`, and 8. `first` is where a function returns to that
 * called this one, not in a tail call, with the stack pointer at `first_sp` then. 0: the tables do
 * not lead there. Cost: some 15 instructions a frame for frames of the program, the C library and
 * this one that another walk went through on x86-64; else that of os_callers.
 */
size_t os_stack_told(uintptr_t first, uintptr_t first_sp, uintptr_t *callers, size_t max);

enum { OS_STACK_PAGE = 4096 }; /* the smallest there is */

/* The rest of os_stack_word: asks the kernel whether the word can be read, unless it was in the
 * same page the last time. */
uintptr_t os_stack_word_far(uintptr_t at);

/* A return address as it lies on an aarch64 stack may carry a signature in its high bits; the
 * instruction, a hint that older processors ignore, removes it. */
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

/* Whether the word at `at` is in the page that `sp` is in, which can be read. */
ALWAYS_INLINE bool os_stack_is_near(uintptr_t sp, uintptr_t at)
{
    return (at ^ sp) < OS_STACK_PAGE;
}

/*
 * Reads the word of the calling thread's stack at `at`, a multiple of 8 above `sp`, without a walk:
 * a return address, without its signature. It may lie beyond the stack: 0 for what cannot be read,
 * nothing faults. Cost: a load; a kernel entry when it is in another page than `sp`, and not the
 * page of the last time.
 */
ALWAYS_INLINE uintptr_t os_stack_word(uintptr_t sp, uintptr_t at)
{
    if (unlikely(!os_stack_is_near(sp, at)))
        return os_stack_word_far(at);
    return os_code_address(*(const volatile uintptr_t *)at);
}

#endif
