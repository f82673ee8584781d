/*
 * children.c: vfork, clone and syscall, which can make a child that shares its parent's memory and
 * thread-local storage.
 *
 * Such a child would use its parent's area, but the kernel does not know the child's restartable
 * sequences and would not abort them. Nothing that the fast paths read tells this child from its
 * parent (docs/design/cores.md). So the thread is lent before the call: it has no area, gets none,
 * and does not write its number into locks. The call ends the lending in the parent once the child
 * has ended or become another program, or never if both run at once; in a child with its own memory
 * the call also ends it.
 *
 * A child that continues on its parent's stack would overwrite what the call keeps there, so the
 * call is assembly. The child does not return by `ret`, which would pop the parent's entry off the
 * shared shadow stack.
 *
 * Owner: each thread its own words; `next_syscall` is written once.
 * errno on failure: as the C library's.
 */
#define _GNU_SOURCE

#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdarg.h>

#include "base/attr.h"
#include "core/cores.h"
#include "os/linux/auxiliary.h"
#include "os/linux/syscall.h"
#include "os/lock.h"
#include "os/os.h"

enum { STACK_ALIGN = 16 };

/* The next definition of `syscall`: another library's behind ours, or the C library's. NULL before
 * our constructor runs, and in a program without a loader. */
HIDDEN KEPT void *next_syscall;

static __attribute__((constructor)) void find_next_syscall(void)
{
    if (auxiliary_value(AT_BASE) != 0 && (next_syscall = dlsym(RTLD_NEXT, "syscall")) == NULL)
        dlerror(); /* clears the loader's message */
}

static void end_lending(void)
{
    lock_end_lending();
    cores_end_lending();
}

/* Called from the assembly. */
HIDDEN KEPT void child_lend(void);
HIDDEN KEPT long child_made(long result, uint64_t flags);
HIDDEN KEPT long child_call_failed(long result);

void child_lend(void)
{
    cores_lend();
    lock_lend();
}

long child_call_failed(long result)
{
    os_set_errno((int)-result);
    return -1;
}

/* After a call with these clone flags, in the parent, and in a child with its own memory. */
long child_made(long result, uint64_t flags)
{
    bool runs_beside = (flags & (CLONE_VM | CLONE_VFORK | CLONE_SETTLS)) == CLONE_VM;
    if (result <= 0 || !runs_beside)
        end_lending();
    return result < 0 ? child_call_failed(result) : result;
}

typedef void child_body(int (*body)(void *), void *argument, uint64_t flags);

/* Body of a new thread or process, on its own stack. */
static KEPT NORETURN void child_runs(int (*body)(void *), void *argument, uint64_t flags)
{
    if ((flags & CLONE_VM) == 0)
        end_lending();
    long status = body(argument);
    for (;;)
        system_call(SYS_exit, status, 0, 0, 0, 0, 0);
}

#if defined(__x86_64__)
ALWAYS_INLINE long call_clone(uint64_t flags, void *stack, pid_t *parent_id, pid_t *child_id,
                              void *storage, int (*body)(void *), void *argument)
{
    long result;
    register pid_t *r10 __asm__("r10") = child_id;
    register void *r8 __asm__("r8") = storage;
    register void *r12 __asm__("r12") = argument;
    register child_body *r13 __asm__("r13") = child_runs;
    __asm__ volatile("syscall\n\t"
                     "testq %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     ".cfi_remember_state\n\t"
                     ".cfi_undefined rip\n\t" /* nobody called the child */
                     "xorl %%ebp, %%ebp\n\t"
                     "movq %%rdi, %%rdx\n\t"
                     "movq %[body], %%rdi\n\t"
                     "movq %%r12, %%rsi\n\t"
                     "call *%%r13\n\t"
                     ".cfi_restore_state\n"
                     "1:"
                     : "=a"(result)
                     : "a"(SYS_clone), "D"(flags), "S"(stack), "d"(parent_id), "r"(r10), "r"(r8),
                       "r"(r12), "r"(r13), [body] "b"(body)
                     : "rcx", "r11", "memory");
    return result;
}
#else
ALWAYS_INLINE long call_clone(uint64_t flags, void *stack, pid_t *parent_id, pid_t *child_id,
                              void *storage, int (*body)(void *), void *argument)
{
    register uint64_t x0 __asm__("x0") = flags;
    register void *x1 __asm__("x1") = stack;
    register pid_t *x2 __asm__("x2") = parent_id;
    register void *x3 __asm__("x3") = storage;
    register pid_t *x4 __asm__("x4") = child_id;
    register long x8 __asm__("x8") = SYS_clone;
    register uint64_t x9 __asm__("x9") = flags;
    register int (*x10)(void *) __asm__("x10") = body;
    register void *x11 __asm__("x11") = argument;
    register child_body *x12 __asm__("x12") = child_runs;
    __asm__ volatile("svc 0\n\t"
                     "cbnz x0, 1f\n\t"
                     ".cfi_remember_state\n\t"
                     ".cfi_undefined x30\n\t" /* nobody called the child */
                     "mov x29, xzr\n\t"
                     "mov x0, x10\n\t"
                     "mov x1, x11\n\t"
                     "mov x2, x9\n\t"
                     "blr x12\n\t"
                     ".cfi_restore_state\n"
                     "1:"
                     : "+r"(x0)
                     : "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x8), "r"(x9), "r"(x10), "r"(x11),
                       "r"(x12)
                     : "memory");
    return (long)x0;
}
#endif

EXPORT int __clone(int (*body)(void *), void *stack, int flags, void *argument, ...);

int __clone(int (*body)(void *), void *stack, int flags, void *argument, ...)
{
    va_list more;
    va_start(more, argument);
    pid_t *parent_id = va_arg(more, pid_t *);
    void *storage = va_arg(more, void *);
    pid_t *child_id = va_arg(more, pid_t *);
    va_end(more);
    if (body == NULL || stack == NULL)
        return (int)child_call_failed(-EINVAL);
    void *top = (void *)((uintptr_t)stack & ~(uintptr_t)(STACK_ALIGN - 1));
    uint64_t bits = (uint32_t)flags;
    child_lend();
    return (int)child_made(call_clone(bits, top, parent_id, child_id, storage, body, argument),
                           bits);
}

EXPORT int clone(int (*body)(void *), void *stack, int flags, void *argument, ...)
    __attribute__((alias("__clone")));

/* `child_call` expects a system call's number and arguments in the kernel's registers. */
#if defined(__x86_64__)
__asm__(".text\n"
        ".globl vfork, __vfork, syscall\n"
        ".type vfork, @function\n"
        ".type __vfork, @function\n"
        ".type syscall, @function\n"
        ".type child_call, @function\n"
        "vfork:\n"
        "__vfork:\n\t"
        ".cfi_startproc\n\t"
        "endbr64\n\t"
        "movl $58, %eax\n\t"
        "movl $0x4100, %edi\n\t" /* vfork as clone flags: CLONE_VM, CLONE_VFORK */
        "jmp child_call\n\t"
        ".cfi_endproc\n\t"
        ".size vfork, . - vfork\n\t"
        ".size __vfork, . - __vfork\n"

        "syscall:\n\t"
        ".cfi_startproc\n\t"
        "endbr64\n\t"
        "cmpl $56, %edi\n\t" /* clone */
        "je 1f\n\t"
        "cmpl $435, %edi\n\t" /* clone3 */
        "je 1f\n\t"
        "cmpl $58, %edi\n\t"
        "je vfork\n\t"
        "movq next_syscall(%rip), %r11\n\t"
        "testq %r11, %r11\n\t"
        "jz 1f\n\t"
        "jmp *%r11\n"
        "1:\n\t"
        "movq %rdi, %rax\n\t"
        "movq %rsi, %rdi\n\t"
        "movq %rdx, %rsi\n\t"
        "movq %rcx, %rdx\n\t"
        "movq %r8, %r10\n\t"
        "movq %r9, %r8\n\t"
        "movq 8(%rsp), %r9\n\t"
        "cmpl $56, %eax\n\t"
        "je child_call\n\t"
        "cmpl $435, %eax\n\t"
        "je child_call\n\t"
        "syscall\n\t"
        "cmpq $-4095, %rax\n\t"
        "jae 2f\n\t"
        "ret\n"
        "2:\n\t"
        "movq %rax, %rdi\n\t"
        "jmp child_call_failed\n\t"
        ".cfi_endproc\n\t"
        ".size syscall, . - syscall\n"

        "child_call:\n\t"
        ".cfi_startproc\n\t"
        "subq $56, %rsp\n\t"
        ".cfi_adjust_cfa_offset 56\n\t"
        "movq %rax, (%rsp)\n\t"
        "movq %rdi, 8(%rsp)\n\t"
        "movq %rsi, 16(%rsp)\n\t"
        "movq %rdx, 24(%rsp)\n\t"
        "movq %r10, 32(%rsp)\n\t"
        "movq %r8, 40(%rsp)\n\t"
        "call child_lend\n\t"
        "movq (%rsp), %rax\n\t"
        "movq 8(%rsp), %rdi\n\t"
        "movq 16(%rsp), %rsi\n\t"
        "movq 24(%rsp), %rdx\n\t"
        "movq 32(%rsp), %r10\n\t"
        "movq 40(%rsp), %r8\n\t"
        "addq $56, %rsp\n\t"
        ".cfi_adjust_cfa_offset -56\n\t"
        "movq (%rsp), %r9\n\t" /* the child overwrites it */
        ".cfi_register rip, r9\n\t"
        "cmpl $435, %eax\n\t"
        "je 1f\n\t"
        "syscall\n\t"
        "movl %edi, %esi\n\t"
        "jmp 2f\n"
        "1:\n\t"
        "syscall\n\t"
        "xorl %esi, %esi\n\t"
        "testq %rax, %rax\n\t"
        "js 2f\n\t"
        "movl (%rdi), %esi\n" /* the kernel has read it */
        "2:\n\t"
        "testq %rax, %rax\n\t"
        "jz 3f\n\t"
        "movq %r9, (%rsp)\n\t"
        ".cfi_remember_state\n\t"
        ".cfi_offset rip, -8\n\t"
        "movq %rax, %rdi\n\t"
        "jmp child_made\n"
        "3:\n\t"
        ".cfi_restore_state\n\t"
        "testl $0x100, %esi\n\t" /* CLONE_VM */
        "jz 4f\n\t"
        "popq %r9\n\t"
        ".cfi_adjust_cfa_offset -8\n\t"
        "notrack jmp *%r9\n"
        "4:\n\t"
        ".cfi_adjust_cfa_offset 8\n\t"
        ".cfi_offset rip, -8\n\t"
        "xorl %edi, %edi\n\t"
        "jmp child_made\n\t"
        ".cfi_endproc\n\t"
        ".size child_call, . - child_call\n");
#else
__asm__(".text\n"
        ".p2align 2\n"
        ".globl vfork, __vfork, syscall\n"
        ".type vfork, %function\n"
        ".type __vfork, %function\n"
        ".type syscall, %function\n"
        ".type child_call, %function\n"
        "vfork:\n"
        "__vfork:\n\t"
        ".cfi_startproc\n\t"
        "hint #34\n\t"        /* bti c */
        "mov x0, #0x4111\n\t" /* CLONE_VM, CLONE_VFORK, SIGCHLD */
        "mov x1, xzr\n\t"
        "mov x8, #220\n\t" /* clone */
        "b child_call\n\t"
        ".cfi_endproc\n\t"
        ".size vfork, . - vfork\n\t"
        ".size __vfork, . - __vfork\n"

        "syscall:\n\t"
        ".cfi_startproc\n\t"
        "hint #34\n\t"
        "cmp w0, #220\n\t"
        "b.eq 1f\n\t"
        "cmp w0, #435\n\t" /* clone3 */
        "b.eq 1f\n\t"
        "adrp x16, next_syscall\n\t"
        "ldr x16, [x16, :lo12:next_syscall]\n\t"
        "cbz x16, 1f\n\t"
        "br x16\n"
        "1:\n\t"
        "mov w8, w0\n\t"
        "mov x0, x1\n\t"
        "mov x1, x2\n\t"
        "mov x2, x3\n\t"
        "mov x3, x4\n\t"
        "mov x4, x5\n\t"
        "mov x5, x6\n\t"
        "cmp w8, #220\n\t"
        "b.eq child_call\n\t"
        "cmp w8, #435\n\t"
        "b.eq child_call\n\t"
        "svc 0\n\t"
        "cmn x0, #4095\n\t"
        "b.hs 2f\n\t"
        "ret\n"
        "2:\n\t"
        "b child_call_failed\n\t"
        ".cfi_endproc\n\t"
        ".size syscall, . - syscall\n"

        "child_call:\n\t"
        ".cfi_startproc\n\t"
        "stp x29, x30, [sp, #-64]!\n\t"
        ".cfi_def_cfa_offset 64\n\t"
        ".cfi_offset x29, -64\n\t"
        ".cfi_offset x30, -56\n\t"
        "stp x0, x1, [sp, #16]\n\t"
        "stp x2, x3, [sp, #32]\n\t"
        "stp x4, x8, [sp, #48]\n\t"
        "bl child_lend\n\t"
        "ldp x0, x1, [sp, #16]\n\t"
        "ldp x2, x3, [sp, #32]\n\t"
        "ldp x4, x8, [sp, #48]\n\t"
        "ldp x29, x30, [sp], #64\n\t"
        ".cfi_def_cfa_offset 0\n\t"
        ".cfi_restore x29\n\t"
        ".cfi_restore x30\n\t"
        "mov x9, x0\n\t"
        "svc 0\n\t"
        "mov x1, x9\n\t"
        "cmp w8, #435\n\t"
        "b.ne 1f\n\t"
        "mov x1, xzr\n\t"
        "tbnz x0, #63, 1f\n\t"
        "ldr x1, [x9]\n" /* the kernel has read it */
        "1:\n\t"
        "cbnz x0, 3f\n\t"
        "tbz w1, #8, 3f\n\t" /* a child without CLONE_VM */
        "mov x16, #1\n\t"
        "hint #40\n\t" /* chkfeat x16: 0 where there is a shadow stack */
        "cbz x16, 2f\n\t"
        "ret\n"
        "2:\n\t"
        "mov x16, x30\n\t"
        "br x16\n"
        "3:\n\t"
        "b child_made\n\t"
        ".cfi_endproc\n\t"
        ".size child_call, . - child_call\n");
#endif
