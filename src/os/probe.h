/*
 * probe.h: USDT probes for bpftrace, perf, SystemTap and gdb.
 *
 * A probe is one nop, and a note in the file that says where the nop and the arguments are; the
 * format is SystemTap's, version 3. The tracer puts a breakpoint there. Arguments should be at hand
 * anyway: a value that must be computed costs time even without a tracer.
 *
 * A probe in code that is inlined twice is two nops with one name.
 */
#ifndef CALM_OS_PROBE_H
#define CALM_OS_PROBE_H

#include "base/attr.h"

/*
 * Arguments are integers or pointers, passed as 8 unsigned bytes each: in a register, or constant.
 * The base is an address that prelink would move together with the nop's. The semaphore is 0, or
 * the address of two bytes that a tracer increments.
 */
#define PROBE_NOTE(provider, name, semaphore, arguments)                                           \
    "990: nop\n"                                                                                   \
    ".pushsection .note.stapsdt, \"?\", \"note\"\n"                                                \
    ".balign 4\n"                                                                                  \
    ".4byte 992f - 991f, 994f - 993f, 3\n"                                                         \
    "991: .asciz \"stapsdt\"\n"                                                                    \
    "992: .balign 4\n"                                                                             \
    "993: .8byte 990b, _.stapsdt.base, " semaphore "\n"                                            \
    ".asciz \"" provider "\"\n"                                                                    \
    ".asciz \"" name "\"\n"                                                                        \
    ".asciz \"" arguments "\"\n"                                                                   \
    "994: .balign 4\n"                                                                             \
    ".popsection\n"                                                                                \
    ".ifndef _.stapsdt.base\n"                                                                     \
    ".pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, comdat\n"                    \
    ".weak _.stapsdt.base\n"                                                                       \
    ".hidden _.stapsdt.base\n"                                                                     \
    "_.stapsdt.base: .space 1\n"                                                                   \
    ".size _.stapsdt.base, 1\n"                                                                    \
    ".popsection\n"                                                                                \
    ".endif"

#define PROBE_VALUE(value) ((unsigned long)(value))

#define PROBE_1(name, a)                                                                           \
    __asm__ volatile(PROBE_NOTE("calmalloc", name, "0", "8@%[first]")                              \
                     :                                                                             \
                     : [first] "nr"(PROBE_VALUE(a)))
#define PROBE_2(name, a, b)                                                                        \
    __asm__ volatile(PROBE_NOTE("calmalloc", name, "0", "8@%[first] 8@%[second]")                  \
                     :                                                                             \
                     : [first] "nr"(PROBE_VALUE(a)), [second] "nr"(PROBE_VALUE(b)))
#define PROBE_3(name, a, b, c)                                                                     \
    __asm__ volatile(PROBE_NOTE("calmalloc", name, "0", "8@%[first] 8@%[second] 8@%[third]")       \
                     :                                                                             \
                     : [first] "nr"(PROBE_VALUE(a)), [second] "nr"(PROBE_VALUE(b)),                \
                       [third] "nr"(PROBE_VALUE(c)))

/*
 * A probe of another provider, with a semaphore at a constant address. The arguments are in the
 * registers of a function call: some tracers look there and ignore the note.
 */
#if defined __x86_64__
#define PROBE_FIRST "rdi"
#define PROBE_SECOND "rsi"
#define PROBE_THIRD "rdx"
#elif defined __aarch64__
#define PROBE_FIRST "x0"
#define PROBE_SECOND "x1"
#define PROBE_THIRD "x2"
#else
#error "calmalloc runs on x86-64 and aarch64"
#endif

#define PROBE_CALL_1(provider, name, semaphore, a)                                                 \
    do {                                                                                           \
        register unsigned long probe_first __asm__(PROBE_FIRST) = PROBE_VALUE(a);                  \
        __asm__ volatile(PROBE_NOTE(provider, name, "%c[counted]", "8@%[first]")                   \
                         :                                                                         \
                         : [first] "r"(probe_first), [counted] ADDRESS_OPERAND(semaphore));        \
    } while (0)
#define PROBE_CALL_3(provider, name, semaphore, a, b, c)                                           \
    do {                                                                                           \
        register unsigned long probe_first __asm__(PROBE_FIRST) = PROBE_VALUE(a);                  \
        register unsigned long probe_second __asm__(PROBE_SECOND) = PROBE_VALUE(b);                \
        register unsigned long probe_third __asm__(PROBE_THIRD) = PROBE_VALUE(c);                  \
        __asm__ volatile(                                                                          \
            PROBE_NOTE(provider, name, "%c[counted]", "8@%[first] 8@%[second] 8@%[third]")         \
            :                                                                                      \
            : [first] "r"(probe_first), [second] "r"(probe_second), [third] "r"(probe_third),      \
              [counted] ADDRESS_OPERAND(semaphore));                                               \
    } while (0)

#endif
