/*
 * owner: says, for each standard name, which file it resolves to; one JSON object.
 *
 * The proof that a preloaded library is active, and the list of names it leaves to others. Linked
 * with libstdc++, so that operator new resolves somewhere in any case. Allocates and frees through
 * each family to see that they agree.
 */
#include "workload.h"

#include <malloc.h>

static const char *const names[] = {
    "malloc",
    "calloc",
    "realloc",
    "free",
    "reallocarray",
    "posix_memalign",
    "aligned_alloc",
    "memalign",
    "valloc",
    "pvalloc",
    "malloc_usable_size",
    "free_sized",
    "free_aligned_sized",
    "_Znwm",
    "_Znam",
    "_ZdlPv",
    "_ZdaPv",
    "_ZdlPvm",
    "_ZnwmSt11align_val_t",
    "_ZnwmRKSt9nothrow_t",
    "_ZdlPvSt11align_val_t",
};

int main(void)
{
    void *blocks[6] = {malloc(100),        calloc(10, 10),
                       realloc(NULL, 100), aligned_alloc(64, 128),
                       memalign(32, 100),  NULL};
    if (posix_memalign(&blocks[5], 4096, 100) != 0)
        fail("posix_memalign failed");
    for (unsigned i = 0; i < 6; i++) {
        if (blocks[i] == NULL || malloc_usable_size(blocks[i]) < 100)
            fail("block %u is NULL or smaller than asked for", i);
        memset(blocks[i], 1, 100);
        free(blocks[i]);
    }
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        Dl_info where = {0};
        void *address = dlsym(RTLD_DEFAULT, names[i]);
        if (address != NULL)
            dladdr(address, &where);
        printf("%s\"%s\": \"%s\"", i == 0 ? "{" : ", ", names[i],
               where.dli_fname == NULL ? "" : where.dli_fname);
    }
    puts("}");
    return 0;
}
