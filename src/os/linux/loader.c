/*
 * loader.c: asks glibc, which keeps a table of its modules that is read without a lock
 * (_dl_find_object, 2.35).
 */
#include "os/loader.h"

#include <sys/auxv.h>

#include "os/linux/found_object.h"

enum loader_answer os_loader_find(const void *address)
{
    struct found_object found;
    if (find_object == NULL)
        return LOADER_MODULE;
    if (find_object((void *)(uintptr_t)address, &found) != 0)
        return LOADER_NONE;
    uintptr_t linker = getauxval(AT_BASE); /* 0 in a static program */
    return linker != 0 && found.link_map->l_addr == linker ? LOADER_ITSELF : LOADER_MODULE;
}
