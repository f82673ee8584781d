/*
 * calmalloc.hpp: calmalloc for C++17 programs: an allocator for containers, a memory resource, a
 * base class whose objects live on the heap, and a profiler that runs while an object lives.
 *
 * Pools for C++ are in calmalloc/pool.hpp, which this header includes and which needs only pool.h.
 *
 * Everything here is inline and calls the functions of calmalloc/calmalloc.h, so it works beside
 * another malloc or in its place. A program linked with libcalmalloc needs none of it for new and
 * delete: both are calmalloc's already, including sized delete.
 *
 * Threads: as the functions called; objects of these classes have no state. Errors: a failed
 * request throws std::bad_alloc, a failed profile std::system_error; a program compiled without
 * exceptions ends with the sentence instead.
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

/* Whether every allocation of `bytes` is aligned to `alignment`, by any function. */
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
 * For containers: std::vector<int, calm::allocator<int>>. All allocators are equal, so a container
 * may free another's block. Cost: calm_malloc and a test of its result; frees are sized.
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

    /* `count` is the argument given to allocate. */
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

/* The heap as a memory resource. All are equal; heap() returns one that is never destroyed. */
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
 * A base class whose objects, including arrays and objects of derived classes, live on the heap.
 * The delete of a single object passes the size. Deleting through a base needs a virtual
 * destructor, as always. All forms of new are here, since a class that declares one hides the
 * others.
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
    /* Without the size: when a constructor throws, the compiler looks only for this form, where the
     * class has more than new's default alignment. */
    static void operator delete(void *block, std::align_val_t) noexcept
    {
        calm_free(block);
    }
    static void operator delete(void *, void *) noexcept {}
    static void operator delete[](void *, void *) noexcept {}
    /* The size of an array may be unknown if its elements need no destructor. */
    static void operator delete[](void *block) noexcept
    {
        calm_free(block);
    }
    static void operator delete[](void *block, std::align_val_t) noexcept
    {
        calm_free(block);
    }
    /* For a constructor that throws after a nothrow new. */
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

/* The heap's statistics now. Cost: milliseconds on a large heap. */
inline calm_stats stats()
{
    calm_stats out;
    calm_stats_read(&out);
    return out;
}

/* Formats: for Go's pprof; gperftools' text; one line for each stack, for flame graphs. */
enum class profile_format { pprof, heap_v2, collapsed };

/*
 * Samples requests while this object lives. There is one heap, so at most one object may live; a
 * second one throws std::system_error with EBUSY.
 */
class profile
{
  public:
    /* One sample in `bytes_a_sample` bytes on average; 0: 512 KiB. The same nonzero seed draws the
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

    /* Writes the samples so far to the file descriptor `fd`. */
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
