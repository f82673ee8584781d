/*
 * vfork.c: vfork(2) for a heap whose threads may work on their core's caches.
 *
 * A child of vfork runs on its parent's memory, thread-local storage included, and is a thread that
 * the kernel knows no sequences of: its parent's area would name the wrong core. So while the child
 * runs, the thread has none and gets none. Nor does it know its number in locks, which is another
 * in the child, and which both ask for when they need it. A function that returns twice cannot keep
 * anything on the stack, hence the assembly. errno on failure: as vfork(2).
 */
#include "core/cores.h"
#include "os/os.h"

_Static_assert(offsetof(struct thread_words, area) == 8, "the assembly below knows where it is");

/* Sets errno from a kernel's result; -1. */
int vfork_failed(long result);

int vfork_failed(long result)
{
    os_set_errno((int)-result);
    return -1;
}

#if defined(__x86_64__)
__asm__(".text\n"
        ".globl vfork\n"
        ".type vfork, @function\n"
        "vfork:\n\t"
        "endbr64\n\t"
        "movq of_thread@gottpoff(%rip), %rdx\n\t"
        "movq %fs:8(%rdx), %rsi\n\t" /* the area */
        "movq $0, %fs:8(%rdx)\n\t"
        "movq area_is_barred@gottpoff(%rip), %r8\n\t"
        "movb %fs:(%r8), %r9b\n\t"
        "movb $1, %fs:(%r8)\n\t"
        "movq lock_holder_id@gottpoff(%rip), %r10\n\t"
        "movl $0, %fs:(%r10)\n\t"
        "popq %rdi\n\t" /* the child returns over it */
        "movl $58, %eax\n\t"
        "syscall\n\t"
        "pushq %rdi\n\t"
        "testq %rax, %rax\n\t"
        "jz 1f\n\t"
        "movq %rsi, %fs:8(%rdx)\n\t"
        "movb %r9b, %fs:(%r8)\n\t"
        "js 2f\n"
        "1:\n\t"
        "ret\n"
        "2:\n\t"
        "movq %rax, %rdi\n\t"
        "jmp vfork_failed\n\t"
        ".size vfork, . - vfork\n");
#else
__asm__(".text\n"
        ".globl vfork\n"
        ".type vfork, %function\n"
        "vfork:\n\t"
        "hint #34\n\t" /* bti c */
        "adrp x9, :gottprel:of_thread\n\t"
        "ldr x9, [x9, :gottprel_lo12:of_thread]\n\t"
        "mrs x10, tpidr_el0\n\t"
        "add x9, x9, x10\n\t"
        "ldr x11, [x9, #8]\n\t" /* the area */
        "str xzr, [x9, #8]\n\t"
        "adrp x12, :gottprel:area_is_barred\n\t"
        "ldr x12, [x12, :gottprel_lo12:area_is_barred]\n\t"
        "add x12, x12, x10\n\t"
        "ldrb w13, [x12]\n\t"
        "mov w14, #1\n\t"
        "strb w14, [x12]\n\t"
        "adrp x15, :gottprel:lock_holder_id\n\t"
        "ldr x15, [x15, :gottprel_lo12:lock_holder_id]\n\t"
        "add x15, x15, x10\n\t"
        "str wzr, [x15]\n\t"
        "mov x0, #0x4111\n\t" /* CLONE_VM, CLONE_VFORK, SIGCHLD */
        "mov x1, xzr\n\t"
        "mov x8, #220\n\t" /* clone */
        "svc 0\n\t"
        "cbz x0, 1f\n\t"
        "str x11, [x9, #8]\n\t"
        "strb w13, [x12]\n\t"
        "tbnz x0, #63, 2f\n"
        "1:\n\t"
        "ret\n"
        "2:\n\t"
        "b vfork_failed\n\t"
        ".size vfork, . - vfork\n");
#endif
