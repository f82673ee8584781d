/*
 * pooled.c: see pooled.h. Every free takes the pool's remote path, whichever thread frees.
 */
#include "core/pooled.h"

#include "core/misuse.h"
#include "pool/pool.h"
#include "pool/pools.h"

bool pooled_free(void *block)
{
    calm_pool *pool = pools_find(block);
    if (likely(pool == NULL))
        return false;
    int error = calm_pool_free_remote(pool, block);
    if (error != 0)
        misuse_report_pool(block, "free of", error);
    return true;
}

bool pooled_usable(const void *block, const char *verb, size_t *out)
{
    const calm_pool *pool = pools_find(block);
    if (likely(pool == NULL))
        return false;
    *out = 0;
    int error = pool_look(pool, block, out);
    if (error != 0)
        misuse_report_pool(block, verb, error);
    return true;
}
