/* pool.c: a program that has the pools and nothing else of calmalloc. */
#include <calmalloc/pool.h>
#include <stdio.h>

int main(void)
{
    const size_t sizes[] = {32, 512};
    const uint32_t shares[] = {40, 60};
    calm_pool *pool;
    int error = calm_pool_init(&pool, sizes, 2, shares, 1 << 20);
    void *block = error == 0 ? calm_pool_alloc(pool, 500) : NULL;
    printf("%s, usable %zu, twice: ", calm_strerror(error),
           block != NULL ? calm_pool_usable_size(pool, block) : 0);
    error = calm_pool_free(pool, block);
    puts(calm_strerror(error != 0 ? error : calm_pool_free_remote(pool, block)));
    calm_pool_destroy(pool);
    return 0;
}
