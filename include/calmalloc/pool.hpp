/*
 * pool.hpp: pools (pool.h) for C++17 programs: a pool that ends with its object, and memory
 * resources on it, for its owner and for other threads.
 *
 * Threads, which types cannot express: a calm::pool and its pool_resource are for the pool's owner,
 * one thread at a time; another may take over when the two synchronise. A remote_resource is for
 * any thread, and only frees. A container belongs where its resource does: to pass one to another
 * thread, pass its objects as calm::pool_ptr, or let the owner destroy it.
 *
 * Errors: a wrong configuration throws std::system_error with pool.h's code and sentence; a request
 * that finds no block throws std::bad_alloc. A program compiled without exceptions ends with the
 * sentence instead. A free that pool.h refuses is an error of the program: nothing is changed, and
 * the pool counts it (stats().misuses).
 */
#ifndef CALMALLOC_POOL_HPP
#define CALMALLOC_POOL_HPP

#include <calmalloc/pool.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <memory_resource>
#include <new>
#include <string>
#include <system_error>
#include <utility>

namespace calm
{

namespace detail
{

/* Out of line, so that the rare case does not lengthen the common path. */
template <class Error, class... Arguments>
[[noreturn, gnu::cold, gnu::noinline]] inline void fail(const Arguments &...arguments)
{
#ifdef __cpp_exceptions
    throw Error(arguments...);
#else
    std::fprintf(stderr, "calmalloc: %s\n", Error(arguments...).what());
    std::abort();
#endif
}

/* `other` as a T, or nullptr. Without RTTI a resource equals only itself. */
template <class T>
const T *same_kind(const T *self, const std::pmr::memory_resource *other) noexcept
{
#ifdef __cpp_rtti
    (void)self;
    return dynamic_cast<const T *>(other);
#else
    return self == other ? self : nullptr;
#endif
}

} // namespace detail

/* pool.h's codes: error.code() == calm::pool_error(CALM_ESHARES). */
inline const std::error_category &pool_category() noexcept
{
    struct category final : std::error_category {
        const char *name() const noexcept override
        {
            return "calmalloc";
        }
        std::string message(int code) const override
        {
            return calm_strerror(code);
        }
    };
    static const category only;
    return only;
}

inline std::error_code pool_error(int code) noexcept
{
    return {code, pool_category()};
}

/* A class of a pool: blocks of `block_bytes`, which get `percent` of its memory. */
struct pool_class {
    std::size_t block_bytes;
    std::uint32_t percent;
};

/* A class of a pool: `blocks` blocks of `block_bytes`. */
struct pool_blocks {
    std::size_t block_bytes;
    std::uint32_t blocks;
};

namespace detail
{

struct pool_destroy {
    void operator()(calm_pool *pool) const noexcept
    {
        calm_pool_destroy(pool);
    }
};

/* Blocks of 8 bytes and more are aligned to 8, smaller ones to their size. */
inline void *pool_allocate(calm_pool *pool, std::size_t bytes, std::size_t alignment) noexcept
{
    return alignment <= 8 && bytes >= alignment ? calm_pool_alloc(pool, bytes)
                                                : calm_pool_alloc_aligned(pool, bytes, alignment);
}

} // namespace detail

/*
 * For the owner: allocates and frees. Equal to any other of the same pool. Cost: that of pool.h's
 * function and a virtual call.
 */
class pool_resource final : public std::pmr::memory_resource
{
  public:
    explicit pool_resource(calm_pool *pool) noexcept : pool_(pool) {}

  private:
    void *do_allocate(std::size_t bytes, std::size_t alignment) override
    {
        void *block = detail::pool_allocate(pool_, bytes, alignment);
        if (__builtin_expect(block == nullptr, 0))
            detail::fail<std::bad_alloc>();
        return block;
    }

    void do_deallocate(void *block, std::size_t, std::size_t) override
    {
        (void)calm_pool_free(pool_, block);
    }

    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override
    {
        auto same = detail::same_kind(this, &other);
        return same != nullptr && same->pool_ == pool_;
    }

    calm_pool *pool_;
};

/*
 * For any thread: frees the owner's allocations, as calm_pool_free_remote; allocating throws
 * std::bad_alloc. Not equal to the owner's resource, so no container silently swaps the two.
 */
class remote_resource final : public std::pmr::memory_resource
{
  public:
    explicit remote_resource(calm_pool *pool) noexcept : pool_(pool) {}

  private:
    void *do_allocate(std::size_t, std::size_t) override
    {
        detail::fail<std::bad_alloc>();
    }

    void do_deallocate(void *block, std::size_t, std::size_t) override
    {
        (void)calm_pool_free_remote(pool_, block);
    }

    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override
    {
        auto same = detail::same_kind(this, &other);
        return same != nullptr && same->pool_ == pool_;
    }

    calm_pool *pool_;
};

/* Destroys an object in a block of a pool, on any thread: frees as calm_pool_free_remote. */
template <class T> class pool_delete
{
  public:
    explicit pool_delete(calm_pool *pool = nullptr) noexcept : pool_(pool) {}

    void operator()(T *object) const noexcept
    {
        object->~T();
        (void)calm_pool_free_remote(pool_, object);
    }

  private:
    calm_pool *pool_;
};

/* An object in a block of a pool. Any thread may own and destroy it, before the pool ends. */
template <class T> using pool_ptr = std::unique_ptr<T, pool_delete<T>>;

/*
 * A pool that ends with this object; then no thread may be in a call on it, and no block of it may
 * be in use. It may be moved; its resources stay valid. The calling thread owns it.
 */
class pool
{
  public:
    /* As calm_pool_create. Throws std::system_error: a code of pool.h. */
    explicit pool(const calm_pool_config &config) : pool_(created(config)) {}

    /* calm::pool pool({{64, 50}, {1024, 50}}, 1 << 20); flags as in pool.h. */
    pool(std::initializer_list<pool_class> classes, std::size_t bytes, unsigned flags = 0)
        : pool_(created(classes, bytes, flags))
    {
    }

    /* calm::pool::counted({{64, 1000}, {1024, 20}}): a number of blocks of each size, in the bytes
     * that they need. */
    [[nodiscard]] static pool counted(std::initializer_list<pool_blocks> classes,
                                      unsigned flags = 0)
    {
        std::size_t block_bytes[CALM_POOL_CLASSES_MAX];
        std::uint32_t blocks[CALM_POOL_CLASSES_MAX];
        std::size_t count = 0;
        if (classes.size() > CALM_POOL_CLASSES_MAX)
            detail::fail<std::system_error>(pool_error(CALM_ECLASSES), "calm::pool");
        for (const pool_blocks &each : classes) {
            block_bytes[count] = each.block_bytes;
            blocks[count++] = each.blocks;
        }
        calm_pool_config config = {};
        config.block_bytes = block_bytes;
        config.blocks = blocks;
        config.classes = count;
        config.flags = flags;
        return pool(config);
    }

    /* As calm_pool_alloc: a block of the smallest class that holds `bytes`, aligned as its blocks
     * are. nullptr: exhausted, or no class is large enough. Owner only. */
    [[nodiscard]] void *allocate(std::size_t bytes) noexcept
    {
        return calm_pool_alloc(get(), bytes);
    }

    /* A block of the smallest class that holds `bytes` and has the alignment. nullptr: exhausted,
     * or no class fits. Owner only. */
    [[nodiscard]] void *allocate(std::size_t bytes, std::size_t alignment) noexcept
    {
        return detail::pool_allocate(get(), bytes, alignment);
    }

    /* Return 0; or a code of pool.h, and nothing is changed. free: owner only; free_remote: any
     * thread. */
    int free(void *block) noexcept
    {
        return calm_pool_free(get(), block);
    }
    int free_remote(void *block) noexcept
    {
        return calm_pool_free_remote(get(), block);
    }

    /* Takes back a bounded number of remote frees. Returns how many. Owner only. */
    std::uint32_t drain() noexcept
    {
        return calm_pool_drain(get());
    }

    /* An object in a block; an empty pointer if there is no block. Owner only; any thread may use
     * the result. If the constructor throws, the block is freed first. */
    template <class T, class... Arguments> pool_ptr<T> make(Arguments &&...arguments)
    {
        void *block = allocate(sizeof(T), alignof(T));
        if (block == nullptr)
            return pool_ptr<T>(nullptr, pool_delete<T>(get()));
        block_guard guard{get(), block};
        T *object = new (block) T(std::forward<Arguments>(arguments)...);
        guard.block = nullptr;
        return pool_ptr<T>(object, pool_delete<T>(get()));
    }

    /* For std::pmr containers: resource() for the owner, remote() for other threads. They refer to
     * the pool by its address, which moving does not change. */
    pool_resource resource() noexcept
    {
        return pool_resource(get());
    }
    remote_resource remote() noexcept
    {
        return remote_resource(get());
    }

    /* Owner only. */
    calm_pool_stats stats() const noexcept
    {
        calm_pool_stats out;
        calm_pool_stats_read(pool_.get(), &out);
        return out;
    }

    /* Occupancy, to be read with calm_pool_watch_free and the like. Any thread. */
    const calm_pool_occupancy &watch() const noexcept
    {
        return *calm_pool_watch(pool_.get());
    }

    bool owns(const void *address) const noexcept
    {
        return calm_pool_owns(pool_.get(), address);
    }

    /* For functions that this class lacks. */
    calm_pool *get() noexcept
    {
        return pool_.get();
    }

  private:
    struct block_guard {
        calm_pool *pool;
        void *block;
        ~block_guard()
        {
            (void)calm_pool_free(pool, block); /* NULL is ignored */
        }
    };

    static calm_pool *created(const calm_pool_config &config)
    {
        calm_pool *out = nullptr;
        int code = calm_pool_create(&config, &out);
        if (code != 0)
            detail::fail<std::system_error>(pool_error(code), "calm::pool");
        return out;
    }

    static calm_pool *created(std::initializer_list<pool_class> classes, std::size_t bytes,
                              unsigned flags)
    {
        std::size_t block_bytes[CALM_POOL_CLASSES_MAX];
        std::uint32_t percent[CALM_POOL_CLASSES_MAX];
        std::size_t count = 0;
        if (classes.size() > CALM_POOL_CLASSES_MAX)
            detail::fail<std::system_error>(pool_error(CALM_ECLASSES), "calm::pool");
        for (const pool_class &each : classes) {
            block_bytes[count] = each.block_bytes;
            percent[count++] = each.percent;
        }
        calm_pool_config config = {};
        config.block_bytes = block_bytes;
        config.percent = percent;
        config.classes = count;
        config.bytes = bytes;
        config.flags = flags;
        return created(config);
    }

    std::unique_ptr<calm_pool, detail::pool_destroy> pool_;
};

} // namespace calm

#endif
