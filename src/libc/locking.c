/*
 * locking.c: mlockall, after which the heap grows by new mappings, and moves blocks by copying.
 *
 * A mapping that is lengthened keeps its locks, or stays without, whatever the program asked for
 * since. A new mapping follows the last call of mlockall. The kernel fills all that is mapped, so
 * free memory that was given back is unmapped first. What is still resident stays: a program may
 * have made a reserve.
 */
#include <sys/mman.h>

#include "base/attr.h"
#include "core/heap.h"
#include "os/linux/syscall.h"
#include "os/os.h"

EXPORT int mlockall(int flags)
{
    if ((flags & MCL_CURRENT) != 0 && (flags & MCL_ONFAULT) == 0)
        heap_unmap_clean();
    os_note_locking();
    long result = system_call(SYS_mlockall, flags, 0, 0, 0, 0, 0);
    if (result < 0)
        os_set_errno((int)-result);
    return result < 0 ? -1 : 0;
}
