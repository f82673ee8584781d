/*
 * loader.c: the modules that a test has loaded.
 */
#include "os/loader.h"

#include "base/atomic.h"
#include "os/sim/sim.h"

enum { MODULES = 8 };

static struct {
    uintptr_t start, end;
    enum loader_answer kind;
} modules[MODULES];

static void (*_Atomic when_asked)(const void *address);

void sim_when_asked(void (*call)(const void *address))
{
    store(&when_asked, call, RELAXED);
}

void sim_load(unsigned module, uintptr_t start, uintptr_t end, bool is_linker)
{
    modules[module].start = start;
    modules[module].end = end;
    modules[module].kind = is_linker ? LOADER_ITSELF : LOADER_MODULE;
}

enum loader_answer os_loader_find(const void *address)
{
    void (*call)(const void *) = exchange(&when_asked, NULL, RELAXED);
    if (call != NULL)
        call(address);
    for (unsigned i = 0; i < MODULES; i++)
        if ((uintptr_t)address - modules[i].start < modules[i].end - modules[i].start)
            return modules[i].kind;
    return LOADER_NONE;
}
