/*
 * modules.h: which files the process executes, and where they are mapped.
 *
 * Reads the kernel's list each time, so a library that is loaded later is seen too. Allocates
 * nothing and takes no lock of the dynamic linker. Memory that another thread may unmap is copied
 * by the kernel, which fails instead of faulting.
 */
#ifndef CALM_OS_MODULES_H
#define CALM_OS_MODULES_H

#include "base/attr.h"

/* One executable mapping of a file. */
struct os_module {
    uintptr_t start, end;
    uint64_t offset;  /* in the file, of start                                           */
    uintptr_t bias;   /* address minus bias is the file's own address, as symbols use it */
    const char *path; /* without the mark of a deleted file                              */
    const unsigned char *build_id; /* NULL if the file has none or its notes are not mapped */
    size_t build_id_bytes;
    bool is_program; /* the program itself, not a library */
};

/*
 * Visits every executable mapping of a file, in address order. `module` and what it points to are
 * valid during the visit only. Returns 0 or a negative errno: -ENOENT, -EACCES without /proc,
 * -ENOMEM.
 */
int os_modules(void (*visit)(const struct os_module *module, void *context), void *context);

/*
 * Finds the code mapping around an address in a library, without a lock, a file or a kernel entry.
 * The library must stay loaded meanwhile, as one on the caller's stack does. No build id. False:
 * the address is the program's or in no module, or the C library cannot say (glibc from 2.35 on
 * can).
 */
bool os_module_find(uintptr_t code, struct os_module *out);

/* Passes the kernel's list of all mappings, as text, piece by piece. Fails like os_modules. */
int os_maps(void (*take)(const char *words, size_t length, void *context), void *context);

enum { OS_BUILD_ID_MAX = 64 };

#endif
