/*
 * wrapper_tableless.c: a wrapper without unwind tables, as code has that was compiled at run time;
 * its frame pointer points to words of its caller's choice.
 */
#include "wrapper_kinds.h"

/* What a walk by frame pointers takes for a frame: {caller's frame pointer, return address}. */
void wrapper_tableless(void (*request)(size_t), size_t bytes, const void *record);

#if defined(__x86_64__)
__asm__(".text\n"
        ".globl wrapper_tableless\n"
        ".type wrapper_tableless, @function\n"
        "wrapper_tableless:\n"
        "    push %rbp\n"
        "    mov %rdi, %rax\n"
        "    mov %rsi, %rdi\n"
        "    mov %rdx, %rbp\n"
        "    call *%rax\n"
        "    pop %rbp\n"
        "    ret\n"
        ".size wrapper_tableless, . - wrapper_tableless\n");
#else
static volatile unsigned sink;

void wrapper_tableless(void (*request)(size_t), size_t bytes, const void *record)
{
    (void)record;
    request(bytes);
    sink = sink + 1;
}
#endif
