/* header_cxx11.cpp: pool.h alone, as C++11, all warnings errors; the names have C's linkage. */
#include <calmalloc/pool.h>

extern "C" int use_of_c11(const calm_pool *pool);

int main()
{
    const size_t sizes[] = {64, 256};
    const uint32_t shares[] = {50, 50};
    calm_pool *pool = nullptr;
    if (calm_pool_init(&pool, sizes, 2, shares, 1 << 20) != CALM_OK)
        return 1;
    int told = use_of_c11(pool);
    void *block = calm_pool_alloc_aligned(pool, 100, 256);
    bool is_fine = told > 0 && calm_pool_owns(pool, block) && calm_pool_free(pool, block) == 0;
    calm_pool_destroy(pool);
    return is_fine ? 0 : 1;
}
