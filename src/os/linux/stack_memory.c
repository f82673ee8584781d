/*
 * stack_memory.c: which words of a stack may be read.
 *
 * Asks the kernel with a call that always fails: rt_sigprocmask with an invalid operation first
 * copies the mask at the address. EFAULT: unreadable; EINVAL: readable, and nothing was done. Any
 * other answer, such as a system-call filter's, counts as unreadable.
 */
#include "os/linux/stack_parts.h"

#include <errno.h>

#include "base/bits.h"
#include "os/linux/syscall.h"
#include "os/stack.h"

enum {
    PAGE = 4096, /* smallest page size; larger pages are checked several times */
    WORD = 8,
    PAGES_TO_ASK_MAX = 1024,
    NO_OPERATION = -1,
};

bool stack_memory_is_readable(uintptr_t address)
{
    long mask = (long)(address & ~(uintptr_t)(WORD - 1));
    return system_call(SYS_rt_sigprocmask, NO_OPERATION, mask, 0, WORD, 0, 0) == -EINVAL;
}

void stack_memory_begin(struct stack_memory *memory, uintptr_t sp, bool is_live)
{
    uintptr_t page = sp & ~(uintptr_t)(PAGE - 1);
    *memory = (struct stack_memory){
        .low = sp > STACK_RED_ZONE ? sp - STACK_RED_ZONE : sp,
        .start = page,
        .end = is_live ? page + PAGE : page,
        .pages_to_ask = PAGES_TO_ASK_MAX,
    };
}

static bool extend(struct stack_memory *memory, uintptr_t address)
{
    if (address < memory->start) { /* in the red zone, a page below the stack pointer's */
        if (!stack_memory_is_readable(memory->start - PAGE))
            return false;
        memory->start -= PAGE;
        return true;
    }
    if ((address - memory->end) / PAGE >= memory->pages_to_ask)
        return false;
    while (address >= memory->end) {
        memory->pages_to_ask--;
        if (!stack_memory_is_readable(memory->end))
            return false;
        memory->end += PAGE;
    }
    return true;
}

/* Other functions' frames hold bytes that sanitizers have marked as out of bounds. */
__attribute__((noinline, no_sanitize("address"), no_sanitize("thread"))) static uint64_t read_word(
    uintptr_t address)
{
    return *(const volatile uint64_t *)address;
}

bool stack_memory_read(struct stack_memory *memory, uintptr_t address, uint64_t *out)
{
    if (address % WORD != 0 || address < memory->low)
        return false;
    bool is_asked = address >= memory->start && address < memory->end;
    if (!is_asked && !extend(memory, address))
        return false;
    *out = read_word(address);
    return true;
}

/* Number of the last page above a stack pointer that was readable. */
static _Thread_local uintptr_t page_read;

uintptr_t os_stack_word_far(uintptr_t at)
{
    if (unlikely(at / PAGE != page_read)) {
        if (!stack_memory_is_readable(at))
            return 0;
        page_read = at / PAGE;
    }
    return os_code_address(read_word(at));
}
