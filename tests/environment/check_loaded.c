/*
 * check_loaded.c: the functions of a libcalmalloc.so that the loader brought.
 */
#define _GNU_SOURCE

#include "check.h"

#include <dlfcn.h>
#include <string.h>

void check_is_calmalloc(void)
{
    Dl_info info;
    memset(&info, 0, sizeof info);
    void *address = dlsym(RTLD_DEFAULT, "malloc");
    CHECK(address != NULL && dladdr(address, &info) != 0, "malloc is nowhere to be found");
    CHECK(strstr(info.dli_fname, "libcalmalloc") != NULL, "malloc belongs to %s", info.dli_fname);
}

void *check_symbol(const char *name)
{
    void *symbol = dlsym(RTLD_DEFAULT, name);
    CHECK(symbol != NULL, "no %s", name);
    return symbol;
}
