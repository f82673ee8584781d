/*
 * symbols.c: a simulated program without symbols, whose memory is all readable.
 */
#include "os/symbols.h"

#include "os/modules.h"

bool os_symbol_find(const void *code, const char *name, struct os_symbol *out)
{
    (void)code, (void)name, (void)out;
    return false;
}

bool os_module_find(uintptr_t code, struct os_module *out)
{
    (void)code, (void)out;
    return false;
}

bool os_is_readable(uintptr_t address)
{
    return address != 0;
}
