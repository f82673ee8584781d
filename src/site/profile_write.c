/*
 * profile_write.c: chooses a writer of profiles, and lends it a buffer and tables.
 *
 * Both lie in a mapping made for one call, since stacks of signal handlers are small. Only the used
 * parts become resident.
 *
 * Owner: the calling thread. No lock.
 * Design: docs/design/profile-formats.md
 */
#include "site/profile_write.h"

#include "base/bits.h"
#include "os/os.h"
#include "site/collapsed.h"
#include "site/heap_v2.h"
#include "site/module_table.h"
#include "site/pprof.h"
#include "site/profile_out.h"

struct scratch {
    struct profile_out out;
    struct module_table modules;
    struct pprof_locations locations;
};

enum { SCRATCH_ALIGN = 64 * 1024 }; /* at least a page, on every machine */

static int scratch_begin(struct scratch **out, size_t size)
{
    void *start;
    int error = os_counted(os_reserve(size, SCRATCH_ALIGN, &start));
    if (error != 0)
        return error;
    error = os_counted(os_commit(start, size));
    if (error != 0) {
        os_counted(os_release(start, size));
        return error;
    }
    *out = (struct scratch *)start;
    return 0;
}

int profile_write_from(const struct profile_source *source, int fd, enum profile_format format)
{
    size_t size = align_up(sizeof(struct scratch), SCRATCH_ALIGN);
    struct scratch *scratch;
    int error = scratch_begin(&scratch, size);
    if (error != 0)
        return -error;
    profile_out_begin(&scratch->out, fd, format == PROFILE_PPROF);
    if (format != PROFILE_HEAP_V2)
        module_table_read(&scratch->modules);
    switch (format) {
    case PROFILE_PPROF:
        pprof_write(&scratch->out, source, &scratch->modules, &scratch->locations);
        break;
    case PROFILE_HEAP_V2: heap_v2_write(&scratch->out, source); break;
    case PROFILE_COLLAPSED: collapsed_write(&scratch->out, source, &scratch->modules); break;
    }
    error = profile_out_end(&scratch->out);
    os_counted(os_release(scratch, size));
    return error;
}
