/*
 * probe.h: marks that bpftrace, perf, SystemTap and gdb can listen at while the program runs
 * (USDT).
 *
 * A probe is one nop, and a note in the file that says where the nop is and where the arguments
 * are at that moment; the format is SystemTap's, version 3. Whoever listens puts a breakpoint
 * there. So arguments should be at hand anyway: a value that has to be computed costs that.
 *
 * A probe in code that is inlined twice is two nops with one name.
 */
#ifndef CALM_OS_PROBE_H
#define CALM_OS_PROBE_H

/*
 * Arguments are whole numbers or pointers, passed as 8 unsigned bytes each: in a register, or
 * constant. The base is an address that prelink would move together with the nop's.
 */
#define PROBE_NOTE(name, arguments)                                                                \
    "990: nop\n"                                                                                   \
    ".pushsection .note.stapsdt, \"?\", \"note\"\n"                                                \
    ".balign 4\n"                                                                                  \
    ".4byte 992f - 991f, 994f - 993f, 3\n"                                                         \
    "991: .asciz \"stapsdt\"\n"                                                                    \
    "992: .balign 4\n"                                                                             \
    "993: .8byte 990b, _.stapsdt.base, 0\n"                                                        \
    ".asciz \"calmalloc\"\n"                                                                       \
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
    __asm__ volatile(PROBE_NOTE(name, "8@%[first]") : : [first] "nr"(PROBE_VALUE(a)))
#define PROBE_2(name, a, b)                                                                        \
    __asm__ volatile(PROBE_NOTE(name, "8@%[first] 8@%[second]")                                    \
                     :                                                                             \
                     : [first] "nr"(PROBE_VALUE(a)), [second] "nr"(PROBE_VALUE(b)))
#define PROBE_3(name, a, b, c)                                                                     \
    __asm__ volatile(PROBE_NOTE(name, "8@%[first] 8@%[second] 8@%[third]")                         \
                     :                                                                             \
                     : [first] "nr"(PROBE_VALUE(a)), [second] "nr"(PROBE_VALUE(b)),                \
                       [third] "nr"(PROBE_VALUE(c)))

#endif
