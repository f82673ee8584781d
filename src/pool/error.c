/*
 * error.c: a sentence for each code: the error, and where possible its remedy.
 */
#include "base/attr.h"
#include "calmalloc/pool.h"

static const char *const sentences[CALM_ERROR_COUNT] = {
    [CALM_OK] = "success",
    [CALM_ENULL] = "a pointer that must not be NULL is NULL",
    [CALM_ECLASSES] = "a pool has 1 to 64 classes",
    [CALM_EBLOCK_ZERO] = "a block size is 0; the least is 1 byte",
    [CALM_EBLOCK_LARGE] = "a block size is above 1 MiB",
    [CALM_EORDER] = "block sizes must ascend, each above the one before",
    [CALM_ESHARE_ZERO] = "a class has a share of 0 percent; leave the class out",
    [CALM_ESHARES] = "the shares do not sum to 100 percent",
    [CALM_ESHARE_SMALL] = "a class's share does not hold one block; give it more, or the pool",
    [CALM_EBLOCKS] = "a class would have more than 16777216 blocks; make several pools",
    [CALM_EBYTES_ZERO] = "a pool of 0 bytes",
    [CALM_EBYTES_SMALL] = "the pool is smaller than its bookkeeping, or than its blocks need",
    [CALM_EBYTES_LARGE] = "the size is above what can be managed",
    [CALM_EFLAGS] = "an unknown flag is set",
    [CALM_EFLAGS_LAZY] = "CALM_POOL_LAZY and CALM_POOL_LOCK contradict each other",
    [CALM_EFLAGS_MEMORY] = "CALM_POOL_HUGE needs memory that the pool maps itself",
    [CALM_EMEMORY_ALIGN] = "the memory given is not aligned to 64 bytes",
    [CALM_EMEMORY_END] = "the memory given would pass the end of the address space",
    [CALM_ENOMEM] = "the kernel has no memory or no address space left",
    [CALM_ELOCK] = "the kernel refuses to lock the pages; see the limit on locked memory",
    [CALM_EHUGE] = "the kernel has no huge pages to ask for",
    [CALM_EPOOLS] = "1024 pools exist already",
    [CALM_EFOREIGN] = "the address is no block of this pool",
    [CALM_EINTERIOR] = "the address is inside a block, not at its start",
    [CALM_EMISALIGNED] = "the address is inside a block and not aligned as blocks are",
    [CALM_EDOUBLE] = "the block is already free",
    [CALM_EMARK] = "the mark is above what the region has in use",
    [CALM_EBLOCKS_ZERO] = "a class has 0 blocks; leave the class out",
    [CALM_EBOTH] = "both shares and numbers of blocks are declared; leave one of them NULL",
    [CALM_EUNCHECKED] = "the worst case of this build was not computed; see tools/bound --stamp",
};

EXPORT const char *calm_strerror(int code)
{
    bool is_known = code >= 0 && code < CALM_ERROR_COUNT && sentences[code] != NULL;
    return is_known ? sentences[code] : "unknown error";
}
