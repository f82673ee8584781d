/*
 * loader.c: asks glibc's table of modules, which needs no lock (_dl_find_object, 2.35).
 */
#include "os/loader.h"

#include "base/atomic.h"
#include "os/linux/auxiliary.h"
#include "os/linux/found_object.h"

/* Guards this thread against recursion: another library may interpose the function and allocate in
 * it. */
static _Thread_local bool is_asking;

enum loader_answer os_loader_find(const void *address)
{
    struct found_object found;
    if (find_object == NULL || is_asking)
        return LOADER_MODULE;
    is_asking = true;
    atomic_signal_fence(memory_order_seq_cst);
    int error = find_object((void *)(uintptr_t)address, &found);
    atomic_signal_fence(memory_order_seq_cst);
    is_asking = false;
    if (error != 0)
        return LOADER_NONE;
    uintptr_t linker = auxiliary_value(AT_BASE); /* 0 in a static program */
    return linker != 0 && found.link_map->l_addr == linker ? LOADER_ITSELF : LOADER_MODULE;
}
