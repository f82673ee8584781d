/*
 * stubs.c: the addresses: one small piece of code a site, all alike. Each calls what the third
 * argument points to.
 */
#include "stubs.h"

#define STUBS 4096
#define STUB_BYTES 16
#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)

#if defined(__aarch64__)
#define STUB_CODE                                                                                  \
    "stp x29, x30, [sp, #-16]!\n.cfi_adjust_cfa_offset 16\n.cfi_offset 30, -8\n"                   \
    "blr x2\nldp x29, x30, [sp], #16\n.cfi_adjust_cfa_offset -16\n.cfi_restore 30\nret\n"
#define FUNCTION_TYPE "%function"
#else
#define STUB_CODE                                                                                  \
    "subq $8, %rsp\n.cfi_adjust_cfa_offset 8\ncall *%rdx\n"                                        \
    "addq $8, %rsp\n.cfi_adjust_cfa_offset -8\nret\n"
#define FUNCTION_TYPE "@function"
#endif

__asm__(".text\n.balign " TEXT(
    STUB_BYTES) "\n.type replay_stubs, " FUNCTION_TYPE "\n"
                "replay_stubs:\n.cfi_startproc\n.rept " TEXT(STUBS) "\n.balign " TEXT(
                    STUB_BYTES) "\n" STUB_CODE
                                ".endr\n.cfi_endproc\n.size replay_stubs, . - replay_stubs\n");

extern const char replay_stubs[] __attribute__((visibility("hidden")));

typedef void *(*stub)(uintptr_t first, uintptr_t second, any_function function);

void *stub_call(uint32_t site, uintptr_t first, uintptr_t second, any_function function)
{
    stub one = (stub)(uintptr_t)(replay_stubs + (site % STUBS) * STUB_BYTES);
    return one(first, second, function);
}
