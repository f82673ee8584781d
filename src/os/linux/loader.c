/*
 * loader.c: asks glibc, which keeps a table of its modules that is read without a lock
 * (_dl_find_object, 2.35).
 */
#include "os/loader.h"

#include <link.h>
#include <sys/auxv.h>

struct dl_find_object {
    unsigned long long flags;
    void *map_start, *map_end;
    struct link_map *link_map;
    void *eh_frame;
    unsigned long long reserved[7];
};
extern int _dl_find_object(void *address, struct dl_find_object *result) __attribute__((weak));

enum loader_answer os_loader_find(const void *address)
{
    struct dl_find_object found;
    if (_dl_find_object == NULL)
        return LOADER_MODULE;
    if (_dl_find_object((void *)(uintptr_t)address, &found) != 0)
        return LOADER_NONE;
    uintptr_t linker = getauxval(AT_BASE); /* 0 in a static program */
    return linker != 0 && found.link_map->l_addr == linker ? LOADER_ITSELF : LOADER_MODULE;
}
