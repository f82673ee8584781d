/*
 * foreign_test.cpp: pointers that never came from calmalloc are counted, named once a process, and
 * ignored; with foreign=stop they stop the program. No address whatsoever may make free fault.
 */
#include "blocks.h"
#include "child.h"

#include <atomic>
#include <calmalloc/calmalloc.h>
#include <cerrno>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

extern "C" void sdallocx(void *block, std::size_t size, int flags);
extern "C" void free_sized(void *block, std::size_t size);

namespace
{

std::uint64_t foreign_frees()
{
    calm_stats stats;
    calm_stats_read(&stats);
    return stats.foreign_frees;
}

void set_option(const char *name, std::uint64_t value)
{
    demand(calm_option_set(name, value) == 0, name);
}

int in_data;

void *address(std::uintptr_t value)
{
    return opaque(reinterpret_cast<void *>(value));
}

void *mapped(int protection)
{
    return mmap(nullptr, 1 << 20, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* The C library's own heap, reached past the names that we replace. */
void *from_the_c_library()
{
    void *library = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    auto allocate = reinterpret_cast<void *(*)(std::size_t)>(dlsym(library, "malloc"));
    demand(allocate != nullptr && allocate != malloc, "the C library has a malloc of its own");
    return allocate(100);
}

struct origin {
    const char *name;
    void *(*get)();
};

void PrintTo(const origin &which, std::ostream *out)
{
    *out << which.name;
}

const origin ORIGINS[] = {
    {"TheStack",
     [] {
         static thread_local char *here;
         char local[64];
         here = opaque(local + 16);
         return static_cast<void *>(here);
     }},
    {"StaticData", [] { return static_cast<void *>(&in_data); }},
    {"Code", [] { return reinterpret_cast<void *>(&getpid); }},
    {"AMapping", [] { return mapped(PROT_READ | PROT_WRITE); }},
    {"AMappingWithoutAccess", [] { return mapped(PROT_NONE); }},
    {"AMappingThatIsGone",
     [] {
         void *start = mapped(PROT_READ);
         munmap(start, 1 << 20);
         return start;
     }},
    {"TheBreak", [] { return sbrk(4096); }},
    {"AnotherAllocator", from_the_c_library},
    {"AddressOne", [] { return address(1); }},
    {"AddressEight", [] { return address(8); }},
    {"AddressMinusOne", [] { return address(UINTPTR_MAX); }},
    {"AddressMinusSixteen", [] { return address(UINTPTR_MAX - 15); }},
    {"TheKernel", [] { return address(0xffff888000000000u); }},
    {"TheHoleBetween", [] { return address(0x8000000000000000u); }},
    {"TheLastUserAddress", [] { return address(0x7fffffffffffu); }},
};

class Foreign : public testing::TestWithParam<origin>
{
};

std::string origin_name(const testing::TestParamInfo<origin> &info)
{
    return info.param.name;
}

TEST_P(Foreign, FreeIsNamedCountedAndIgnored)
{
    expect_survival([] {
        void *pointer = GetParam().get();
        foretell("calmalloc: foreign free of %p: not from calmalloc; ignored", pointer);
        errno = 77;
        free(pointer);
        demand(errno == 77, "errno is preserved");
        demand(foreign_frees() == 1, "one foreign free is counted");
    });
}

TEST_P(Foreign, FreeIsNamedOnlyOnceAProcess)
{
    expect_survival([] {
        void *pointer = GetParam().get();
        foretell("calmalloc: foreign free of %p: not from calmalloc; ignored", pointer);
        for (int i = 0; i < 1000; i++)
            free(pointer);
        free(&in_data);
        demand(foreign_frees() == 1001, "every foreign free is counted");
        demand(calm_verify() == nullptr, "the heap is intact");
    });
}

TEST_P(Foreign, FreeStopsTheProgramWhenAskedTo)
{
    expect_stop([] {
        set_option("foreign", 1);
        void *pointer = GetParam().get();
        foretell("calmalloc: free of %p: not from calmalloc", pointer);
        free(pointer);
    });
}

TEST_P(Foreign, DeleteAndSizedFreesAreTreatedAlike)
{
    expect_survival([] {
        void *pointer = GetParam().get();
        foretell("calmalloc: foreign free of %p: not from calmalloc; ignored", pointer);
        ::operator delete(pointer);
        ::operator delete[](pointer, 100);
        sdallocx(pointer, 100, 0);
        free_sized(pointer, 100);
        demand(foreign_frees() == 4, "every foreign free is counted");
    });
}

TEST_P(Foreign, UsableSizeIsZeroAndNamed)
{
    expect_survival([] {
        void *pointer = GetParam().get();
        foretell("calmalloc: foreign usable size of %p: not from calmalloc; ignored", pointer);
        demand(malloc_usable_size(pointer) == 0, "a foreign pointer has no usable size");
    });
}

TEST_P(Foreign, ReallocFailsAndIsNamed)
{
    expect_survival([] {
        void *pointer = GetParam().get();
        foretell("calmalloc: foreign realloc of %p: not from calmalloc; ignored", pointer);
        errno = 0;
        demand(realloc(pointer, 100) == nullptr, "nothing grows from a foreign pointer");
        demand(errno != 0, "errno says that realloc failed");
    });
}

INSTANTIATE_TEST_SUITE_P(From, Foreign, testing::ValuesIn(ORIGINS), origin_name);

TEST(ForeignFree, FromManyThreadsAtOnceIsNamedOnceAndCountedExactly)
{
    outcome got = run_child([] {
        std::vector<std::thread> threads;
        for (int t = 0; t < 8; t++)
            threads.emplace_back([] {
                for (int i = 0; i < 1000; i++)
                    free(opaque(&in_data));
            });
        for (std::thread &thread : threads)
            thread.join();
        foretell("calmalloc: foreign free of %p: not from calmalloc; ignored",
                 static_cast<void *>(&in_data));
        demand(foreign_frees() == 8000, "every foreign free is counted");
    });
    expect_survived(got);
}

/* Law: free of any address whatsoever does not fault. Odd addresses, so that no live block is ever
 * hit. */
TEST(AnyAddress, NeverFaults)
{
    outcome got = run_child([] {
        set_option("misuse", 0);
        std::uint64_t random = 88172645463325252u;
        void *anchor = opaque(malloc(100));
        std::uintptr_t base = reinterpret_cast<std::uintptr_t>(anchor);
        for (int i = 0; i < 2000000; i++) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            std::uintptr_t any = random >> (random % 40);
            std::uintptr_t near = base + (random >> (10 + random % 50)) *
                                             (random & 64 ? 1 : std::uintptr_t(-1));
            free(address((i % 2 ? any : near) | 1));
        }
        demand(calm_verify() == nullptr, "the heap is intact");
    });
    EXPECT_TRUE(WIFEXITED(got.status) && WEXITSTATUS(got.status) == 0)
        << got.status << got.errors.substr(0, 500);
}

/* The same through the calls that look at a pointer before they act on it. */
TEST(AnyAddress, NeverFaultsInReallocAndUsableSize)
{
    outcome got = run_child([] {
        set_option("misuse", 0);
        std::uint64_t random = 1181783497276652981u;
        std::uintptr_t base = reinterpret_cast<std::uintptr_t>(opaque(malloc(100)));
        for (int i = 0; i < 200000; i++) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            void *near = address((base + (random >> (10 + random % 50))) | 1);
            opaque(malloc_usable_size(near));
            demand(realloc(near, 10) == nullptr, "realloc of no block returns NULL");
        }
        demand(calm_verify() == nullptr, "the heap is intact");
    });
    EXPECT_TRUE(WIFEXITED(got.status) && WEXITSTATUS(got.status) == 0)
        << got.status << got.errors.substr(0, 500);
}

} // namespace
