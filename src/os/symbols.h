/*
 * symbols.h: addresses of a loaded module's exported symbols, and whether memory is readable; both
 * without a lock, at any time.
 */
#ifndef CALM_OS_SYMBOLS_H
#define CALM_OS_SYMBOLS_H

#include "base/attr.h"

struct os_symbol {
    const void *address;
    size_t bytes; /* as the module states it */
};

/*
 * Finds `name` among the dynamic symbols that the module around `code` defines. The module must
 * stay loaded meanwhile, as one on the caller's stack does. False: no such symbol, no hash table in
 * GNU's format, or the C library cannot say which module that is (glibc from 2.35 on can).
 */
bool os_symbol_find(const void *code, const char *name, struct os_symbol *out);

/* Whether the word at `address` is readable. Cost: a kernel entry. */
bool os_is_readable(uintptr_t address);

#endif
