/*
 * symbols.h: where a loaded module has what it names for others, and whether memory can be read;
 * both without a lock, at any time.
 */
#ifndef CALM_OS_SYMBOLS_H
#define CALM_OS_SYMBOLS_H

#include "base/attr.h"

struct os_symbol {
    const void *address;
    size_t bytes; /* as the module states it */
};

/*
 * Finds `name` among the dynamic symbols that the module around `code` defines. False: it has none,
 * or no hash table in GNU's format, or the C library cannot say which module that is (glibc from
 * 2.35 on can). The module must stay loaded meanwhile, as one does that is on the caller's stack.
 */
bool os_symbol_find(const void *code, const char *name, struct os_symbol *out);

/* Whether the word at `address` can be read. Cost: a kernel entry. */
bool os_is_readable(uintptr_t address);

#endif
