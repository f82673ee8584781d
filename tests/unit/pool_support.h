/*
 * pool_support.h: as support.h, for the headers of pool, and what tests of pools share.
 */
#pragma GCC system_header
#ifndef CALM_TESTS_UNIT_POOL_SUPPORT_H
#define CALM_TESTS_UNIT_POOL_SUPPORT_H

#include "support.h"

extern "C" {
#include "base/claim.h"
#include "calmalloc/pool.h"
#include "pool/bounded.h"
#include "pool/levels.h"
#include "pool/plan.h"
#include "pool/pool.h"
#include "pool/pools.h"
}

namespace calm_test
{

/* A configuration that owns its arrays. */
struct PoolConfig {
    std::vector<size_t> sizes;
    std::vector<uint32_t> shares;
    calm_pool_config plain;

    PoolConfig(std::vector<size_t> with_sizes, std::vector<uint32_t> with_shares, size_t bytes,
               unsigned flags = 0)
        : sizes(std::move(with_sizes)), shares(std::move(with_shares)), plain()
    {
        plain.bytes = bytes;
        plain.flags = flags;
    }

    const calm_pool_config *get()
    {
        plain.block_bytes = sizes.data();
        plain.percent = shares.data();
        plain.classes = sizes.size();
        return &plain;
    }
};

/* A pool that ends with the scope. */
class Pool
{
  public:
    explicit Pool(PoolConfig config) : pool_(nullptr)
    {
        error = calm_pool_create(config.get(), &pool_);
        calm_pool_bound(config.get(), &limits);
    }
    Pool(const Pool &) = delete;
    ~Pool()
    {
        calm_pool_destroy(pool_);
    }
    operator calm_pool *() const
    {
        return pool_;
    }

    int error;
    calm_pool_limits limits;

  private:
    calm_pool *pool_;
};

/* As many calm_pool_drain as find all that others freed. */
inline void drain_all(calm_pool *pool)
{
    size_t calls = 0;
    for (uint32_t i = 0; i < pool->class_count; i++)
        calls = std::max<size_t>(calls, class_words(&pool->classes[i]));
    for (size_t i = 0; i < calls * pool->class_count * 65; i++)
        calm_pool_drain(pool);
}

} // namespace calm_test

#endif
