/*
 * support.h: lets unit tests read the lower headers of src/, which are C17, from C++17; and what
 * they share.
 *
 * Counts as a system header, so that only the tests' own lines are judged as C++. Words that C and
 * C++ spell differently are renamed while the headers are read; the rest is tests/support/cpp.
 */
#pragma GCC system_header
#ifndef CALM_TESTS_UNIT_SUPPORT_H
#define CALM_TESTS_UNIT_SUPPORT_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#define _Thread_local __thread
extern "C" {
#include "base/bits.h"
#include "base/check.h"
#include "base/text.h"
#include "mem/extent.h"
#include "mem/huge.h"
#include "mem/meta.h"
#include "mem/region.h"
#include "mem/span.h"
#include "os/lock.h"
#include "os/os.h"
}
#undef _Thread_local

#if defined(__has_feature)
#define CALM_TESTS_HAS_FEATURE(name) __has_feature(name)
#else
#define CALM_TESTS_HAS_FEATURE(name) 0
#endif

namespace calm_test
{

/* Sanitizers map terabytes and have threads of their own: limits and thread counts mean nothing
 * then. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CALM_TESTS_SANITIZED 1
#else
#define CALM_TESTS_SANITIZED 0
#endif
constexpr bool is_sanitized = CALM_TESTS_SANITIZED || CALM_TESTS_HAS_FEATURE(address_sanitizer) ||
                              CALM_TESTS_HAS_FEATURE(thread_sanitizer);

/*
 * Runs `body` in a thread that then ends by the bare system call. Not joined: the thread sanitizer
 * would wait for a word that such a thread does not leave.
 */
template <typename Body> void run_and_end_barely(const Body &body)
{
    std::atomic<uint32_t> id{0};
    std::thread([&] {
        body();
        id = os_thread_id();
        syscall(SYS_exit, 0);
    }).detach();
    while (id == 0 || !os_task_has_ended(id))
        std::this_thread::yield();
}

/* Random numbers with a seed, the same on every machine: a counter through the finaliser of
 * splitmix64. */
class Random
{
  public:
    explicit Random(uint64_t seed) : state_(seed) {}

    uint64_t next()
    {
        state_ += 0x9E3779B97F4A7C15u;
        uint64_t mixed = state_;
        mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9u;
        mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBu;
        return mixed ^ (mixed >> 31);
    }

    size_t below(size_t limit)
    {
        return static_cast<size_t>(next() % limit);
    }

  private:
    uint64_t state_;
};

/* What /proc/self/smaps says of one mapping. */
struct Mapping {
    uintptr_t start;
    uintptr_t end;
    std::string access;
    size_t resident;
};

inline std::vector<Mapping> mappings()
{
    std::vector<Mapping> found;
    std::ifstream file("/proc/self/smaps");
    std::string line;
    while (std::getline(file, line)) {
        unsigned long start, end, kilobytes;
        char access[8];
        if (sscanf(line.c_str(), "%lx-%lx %7s", &start, &end, access) == 3)
            found.push_back({start, end, access, 0});
        else if (sscanf(line.c_str(), "Rss: %lu kB", &kilobytes) == 1 && !found.empty())
            found.back().resident = kilobytes * 1024;
    }
    return found;
}

/* The mappings that touch [start, start + size). */
inline std::vector<Mapping> mappings_in(const void *start, size_t size)
{
    std::vector<Mapping> found;
    uintptr_t from = reinterpret_cast<uintptr_t>(start);
    for (const Mapping &mapping : mappings())
        if (mapping.start < from + size && mapping.end > from)
            found.push_back(mapping);
    return found;
}

/* Resident bytes of the mappings that touch [start, start + size), as the kernel states them. */
inline size_t kernel_resident(const void *start, size_t size)
{
    size_t bytes = 0;
    for (const Mapping &mapping : mappings_in(start, size))
        bytes += mapping.resident;
    return bytes;
}

inline bool is_zero(const void *start, size_t size)
{
    const unsigned char *bytes = static_cast<const unsigned char *>(start);
    return size == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0);
}

} // namespace calm_test

#endif
