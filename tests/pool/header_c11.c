/* header_c11.c: pool.h alone, as C11, all warnings errors. */
#include <calmalloc/pool.h>

int use_of_c11(const calm_pool *pool);
int use_of_c11(const calm_pool *pool)
{
    const struct calm_pool_occupancy *watch = calm_pool_watch(pool);
    return (int)(calm_pool_watch_free(watch, 0) + calm_pool_watch_backlog(watch) +
                 (uint32_t)calm_pool_watch_bytes(watch));
}
