/*
 * modules.h: which files the process executes, and where they are mapped.
 *
 * Read from the kernel each time, so a library that is loaded later is seen as well. Nothing is
 * allocated, no lock of the dynamic linker is taken. Memory that another thread unmaps meanwhile is
 * never touched: it is copied by the kernel, which fails instead of faulting.
 */
#ifndef CALM_OS_MODULES_H
#define CALM_OS_MODULES_H

#include "base/attr.h"

/* One executable mapping of a file. */
struct os_module {
    uintptr_t start, end;
    uint64_t offset;  /* in the file, of start                                              */
    uintptr_t bias;   /* an address minus bias is what the file's symbols and debuggers use */
    const char *path; /* without the mark of a deleted file                                 */
    const unsigned char *build_id; /* NULL when the file has none or its notes are not mapped */
    size_t build_id_bytes;
    bool is_program; /* the process starts in it: the program itself, not a library */
};

/*
 * Visits every executable mapping of a file, in address order. What `module` points to is valid
 * during the visit only. 0 or a negative errno: -ENOENT, -EACCES without /proc, -ENOMEM.
 */
int os_modules(void (*visit)(const struct os_module *module, void *context), void *context);

/*
 * The mapping of code around an address in a library, without a lock, a file or a kernel entry. It
 * must stay loaded meanwhile, as one does that is on the caller's stack. False: it is the program's
 * or nobody's, or the C library cannot say (glibc from 2.35 on can). There is no build id.
 */
bool os_module_find(uintptr_t code, struct os_module *out);

/* Hands out the kernel's own list of all mappings, as text, piece by piece. Fails as os_modules. */
int os_maps(void (*take)(const char *words, size_t length, void *context), void *context);

enum { OS_BUILD_ID_MAX = 64 };

#endif
