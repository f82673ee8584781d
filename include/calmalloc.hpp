/*
 * calmalloc.hpp: calmalloc for C++17 programs: an allocator for containers, a memory resource, a
 * base class whose objects live on the heap, and the profiler for as long as an object lives.
 *
 * Pools for C++ are in calmalloc/pool.hpp, which this includes and which needs pool.h alone.
 *
 * Everything here is inline and calls the functions of calmalloc/calmalloc.h, so it works beside
 * another malloc as well as in place of it. A program that is linked with libcalmalloc needs none
 * of it for new and delete: those are calmalloc's already, sized ones included.
 *
 * Threads: as the functions called; an object of these classes has no state of its own. Errors: a
 * request that fails throws std::bad_alloc, a profile that cannot be had std::system_error; a
 * program that is compiled without exceptions ends with the sentence instead.
 */
#ifndef CALMALLOC_HPP
#define CALMALLOC_HPP

#include <calmalloc/adapter.h>
#include <calmalloc/calmalloc.h>
#include <calmalloc/pool.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory_resource>
#include <new>
#include <system_error>
#include <type_traits>

namespace calm
{

namespace detail
{

/* Whether every block of `bytes` is aligned to `alignment`, whoever asks. */
constexpr bool is_plain(std::size_t bytes, std::size_t alignment) noexcept
{
    return alignment <= 8 || (alignment <= 16 && bytes > 8);
}

/* A block or nullptr. */
inline void *try_allocate(std::size_t bytes, std::size_t alignment) noexcept
{
    return is_plain(bytes, alignment) ? calm_malloc(bytes) : calm_aligned_alloc(alignment, bytes);
}

/* A block or an exception. */
inline void *allocate(std::size_t bytes, std::size_t alignment)
{
    void *block = try_allocate(bytes, alignment);
    if (__builtin_expect(block == nullptr, 0))
        fail<std::bad_alloc>();
    return block;
}

} // namespace detail

/*
 * For containers: std::vector<int, calm::allocator<int>>. All allocators are equal, and so a
 * container may free what another one allocated. Cost: calm_malloc and a look at its result; frees
 * are sized.
 */
template <class T> class allocator
{
  public:
    using value_type = T;
    using size_type = std::size_t;
    using difference_type = std::ptrdiff_t;
    using propagate_on_container_move_assignment = std::true_type;
    using is_always_equal = std::true_type;

    constexpr allocator() noexcept = default;
    template <class U> constexpr allocator(const allocator<U> &) noexcept {}

    /* Room for `count` objects. Throws std::bad_array_new_length when their size overflows. */
    [[nodiscard]] T *allocate(std::size_t count)
    {
        if (__builtin_expect(count > std::numeric_limits<std::ptrdiff_t>::max() / sizeof(T), 0))
            detail::fail<std::bad_array_new_length>();
        return static_cast<T *>(detail::allocate(count * sizeof(T), alignof(T)));
    }

    /* `count` as it was given to allocate. */
    void deallocate(T *block, std::size_t count) noexcept
    {
        calm_adapter_free(block, count * sizeof(T), alignof(T));
    }

    template <class U> friend constexpr bool operator==(allocator, allocator<U>) noexcept
    {
        return true;
    }
    template <class U> friend constexpr bool operator!=(allocator, allocator<U>) noexcept
    {
        return false;
    }
};

/* The heap as a memory resource. All of them are equal; heap() is one that lives for ever. */
class heap_resource : public std::pmr::memory_resource
{
    void *do_allocate(std::size_t bytes, std::size_t alignment) override
    {
        return detail::allocate(bytes, alignment);
    }

    void do_deallocate(void *block, std::size_t bytes, std::size_t alignment) override
    {
        calm_adapter_free(block, bytes, alignment);
    }

    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override
    {
        return detail::same_kind(this, &other) != nullptr;
    }
};

/* For std::pmr containers: std::pmr::vector<int> numbers(calm::heap()). */
inline std::pmr::memory_resource *heap() noexcept
{
    /* Never destroyed: containers of static storage may outlive any other object. */
    alignas(heap_resource) static unsigned char place[sizeof(heap_resource)];
    static heap_resource *const resource = new (place) heap_resource;
    return resource;
}

/*
 * A base class whose objects, those of classes derived from it and arrays of them live on the
 * heap, and tell their size when one is deleted. Deleting through a base needs a virtual
 * destructor, as always. Every form of new is here, as a class with one of them hides the others.
 */
struct object {
    static void *operator new(std::size_t bytes)
    {
        return detail::allocate(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
    }
    static void *operator new(std::size_t bytes, std::align_val_t alignment)
    {
        return detail::allocate(bytes, static_cast<std::size_t>(alignment));
    }
    static void *operator new(std::size_t bytes, const std::nothrow_t &) noexcept
    {
        return detail::try_allocate(bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
    }
    static void *operator new(std::size_t bytes, std::align_val_t alignment,
                              const std::nothrow_t &) noexcept
    {
        return detail::try_allocate(bytes, static_cast<std::size_t>(alignment));
    }
    static void *operator new(std::size_t, void *place) noexcept
    {
        return place;
    }
    static void *operator new[](std::size_t bytes)
    {
        return operator new(bytes);
    }
    static void *operator new[](std::size_t bytes, std::align_val_t alignment)
    {
        return operator new(bytes, alignment);
    }
    static void *operator new[](std::size_t bytes, const std::nothrow_t &none) noexcept
    {
        return operator new(bytes, none);
    }
    static void *operator new[](std::size_t bytes, std::align_val_t alignment,
                                const std::nothrow_t &none) noexcept
    {
        return operator new(bytes, alignment, none);
    }
    static void *operator new[](std::size_t, void *place) noexcept
    {
        return place;
    }
    static void operator delete(void *block, std::size_t bytes) noexcept
    {
        calm_adapter_free(block, bytes, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
    }
    /* Without the size: a constructor that throws looks for this form alone, where the class is
     * aligned to more than new's own. */
    static void operator delete(void *block, std::align_val_t) noexcept
    {
        calm_free(block);
    }
    static void operator delete(void *, void *) noexcept {}
    static void operator delete[](void *, void *) noexcept {}
    /* The size of an array may not be known, where its elements need no destructor. */
    static void operator delete[](void *block) noexcept
    {
        calm_free(block);
    }
    static void operator delete[](void *block, std::align_val_t) noexcept
    {
        calm_free(block);
    }
    /* Of a constructor that throws where new would not. */
    static void operator delete(void *block, const std::nothrow_t &) noexcept
    {
        calm_free(block);
    }
    static void operator delete(void *block, std::align_val_t, const std::nothrow_t &) noexcept
    {
        calm_free(block);
    }
    static void operator delete[](void *block, const std::nothrow_t &) noexcept
    {
        calm_free(block);
    }
    static void operator delete[](void *block, std::align_val_t, const std::nothrow_t &) noexcept
    {
        calm_free(block);
    }
};

/* What the heap holds now. Cost: milliseconds on a large heap. */
inline calm_stats stats()
{
    calm_stats out;
    calm_stats_read(&out);
    return out;
}

/* How a profile is written: for Go's pprof, as gperftools does, a line a stack for flame graphs. */
enum class profile_format { pprof, heap_v2, collapsed };

/*
 * Requests are sampled for as long as this lives. There is one heap, so there is at most one; a
 * second one throws std::system_error with EBUSY.
 */
class profile
{
  public:
    /* One sample in `bytes_a_sample` bytes on average, 512 KiB for 0. The same seed but 0 draws the
     * same samples for the same requests of a process with one thread, from its start on. */
    explicit profile(std::size_t bytes_a_sample = 0, std::uint64_t seed = 0)
    {
        throw_if(calm_profile_start(bytes_a_sample, seed), "calm::profile");
    }

    profile(const profile &) = delete;
    profile &operator=(const profile &) = delete;

    ~profile()
    {
        calm_profile_stop();
    }

    /* Writes what was sampled so far to the file descriptor `fd`. */
    void write(int fd, profile_format format = profile_format::pprof) const
    {
        const char *name = format == profile_format::pprof     ? "pprof"
                           : format == profile_format::heap_v2 ? "heap_v2"
                                                               : "collapsed";
        throw_if(calm_profile_dump(fd, name), "calm::profile::write");
    }

  private:
    static void throw_if(int error, const char *what)
    {
        if (error != 0)
            detail::fail<std::system_error>(error, std::generic_category(), what);
    }
};

} // namespace calm

#endif
