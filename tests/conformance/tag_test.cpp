/*
 * tag_test.cpp: requests that name their site: by tag.h, and by the functions that Clang calls with
 * -fsanitize=alloc-token. Those are called as it would; no compiler of ours emits the calls.
 *
 * Where a tag counts is seen from outside by addresses: once the heap has cohorts, blocks of one
 * site share slabs and blocks of others do not. A slab is a unit of 64 KiB.
 */
#include "tag_here.h"

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <functional>
#include <gtest/gtest.h>
#include <malloc.h>
#include <memory>
#include <new>
#include <set>
#include <string>
#include <vector>

namespace
{

enum { BYTES = 48, BLOCKS = 64, TAGS = 24, GROWTH_BLOCKS = 300000, UNIT_SHIFT = 16 };

/* Lives as long as the process, so that the heap is large enough for cohorts. */
void grow_heap()
{
    static std::vector<std::unique_ptr<char[]>> kept;
    while (kept.size() < GROWTH_BLOCKS)
        kept.emplace_back(new char[BYTES]);
}

using Request = std::function<void *(uint64_t tag)>;

/* The slabs that a tag's blocks lie in; the blocks stay. */
std::set<uintptr_t> units_of(const Request &request, uint64_t tag)
{
    std::set<uintptr_t> units;
    for (unsigned i = 0; i < BLOCKS; i++) {
        void *block = request(tag);
        EXPECT_NE(block, nullptr);
        EXPECT_GE(malloc_usable_size(block), static_cast<size_t>(BYTES));
        units.insert(reinterpret_cast<uintptr_t>(block) >> UNIT_SHIFT);
    }
    return units;
}

bool do_meet(const std::set<uintptr_t> &a, const std::set<uintptr_t> &b)
{
    for (uintptr_t unit : a)
        if (b.count(unit) != 0)
            return true;
    return false;
}

/* That two functions agree on a tag's site, and that it is the tag that decides. */
void expect_tag_counts(const Request &request)
{
    grow_heap();
    const Request reference = [](uint64_t tag) { return calm_malloc_at(BYTES, tag); };
    unsigned apart = 0;
    for (uint64_t tag = 1; tag <= TAGS; tag++) {
        auto units = units_of(request, tag);
        EXPECT_TRUE(do_meet(units, units_of(reference, tag))) << "tag " << tag;
        apart += !do_meet(units, units_of(reference, tag % TAGS + 1));
    }
    EXPECT_GE(apart, TAGS / 2u) << "two tags are in one cohort only by chance, one time in 62";
}

template <typename Function> Function *token_function(const char *name)
{
    auto *found = reinterpret_cast<Function *>(dlsym(RTLD_DEFAULT, name));
    EXPECT_NE(found, nullptr) << name;
    return found;
}

const char *const TOKEN_NAMES[] = {
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "aligned_alloc",
    "memalign",
    "valloc",
    "pvalloc",
    "posix_memalign",
    "_Znwm",
    "_Znwm12__hot_cold_t",
    "_ZnwmRKSt9nothrow_t",
    "_ZnwmRKSt9nothrow_t12__hot_cold_t",
    "_ZnwmSt11align_val_t",
    "_ZnwmSt11align_val_t12__hot_cold_t",
    "_ZnwmSt11align_val_tRKSt9nothrow_t",
    "_ZnwmSt11align_val_tRKSt9nothrow_t12__hot_cold_t",
    "_Znam",
    "_Znam12__hot_cold_t",
    "_ZnamRKSt9nothrow_t",
    "_ZnamRKSt9nothrow_t12__hot_cold_t",
    "_ZnamSt11align_val_t",
    "_ZnamSt11align_val_t12__hot_cold_t",
    "_ZnamSt11align_val_tRKSt9nothrow_t",
    "_ZnamSt11align_val_tRKSt9nothrow_t12__hot_cold_t",
    "__size_returning_new",
    "__size_returning_new_hot_cold",
    "__size_returning_new_aligned",
    "__size_returning_new_aligned_hot_cold",
};

TEST(AllocToken, EveryNameThatClangCallsIsThere)
{
    for (const char *name : TOKEN_NAMES)
        for (const char *prefix : {"", "0_", "1_", "2_", "3_", "4_", "5_", "6_", "7_"}) {
            std::string whole = std::string("__alloc_token_") + prefix + name;
            Dl_info info;
            void *found = dlsym(RTLD_DEFAULT, whole.c_str());
            ASSERT_NE(found, nullptr) << whole;
            ASSERT_NE(dladdr(found, &info), 0);
            EXPECT_NE(std::string(info.dli_fname).find("libcalmalloc"), std::string::npos) << whole;
        }
}

/* Seen to fail with functions that take their caller for the site. */
TEST(Tag, EveryTaggedFunctionPutsTheTagInPlaceOfTheCaller)
{
    expect_tag_counts([](uint64_t tag) { return calm_calloc_at(1, BYTES, tag); });
    expect_tag_counts([](uint64_t tag) { return calm_realloc_at(nullptr, BYTES, tag); });
    expect_tag_counts([](uint64_t tag) { return calm_reallocarray_at(nullptr, 1, BYTES, tag); });
    expect_tag_counts([](uint64_t tag) { return calm_aligned_alloc_at(16, BYTES, tag); });
    expect_tag_counts([](uint64_t tag) { return ::operator new(BYTES, calm::tag{tag}); });
}

TEST(Tag, ZeroIsNoTagAndTheCallersAreTheSites)
{
    grow_heap();
    auto one = units_of([](uint64_t) { return calm_malloc_at(BYTES, 0); }, 0);
    unsigned apart = 0;
    for (uint64_t tag = 1; tag <= TAGS; tag++)
        apart += !do_meet(one, units_of([](uint64_t t) { return calm_malloc_at(BYTES, t); }, tag));
    EXPECT_GE(apart, TAGS / 2u);
}

TEST(AllocToken, ATokenIsATag)
{
    auto *plain = token_function<void *(size_t, size_t)>("__alloc_token_malloc");
    auto *zeroed = token_function<void *(size_t, size_t, size_t)>("__alloc_token_calloc");
    auto *resized = token_function<void *(void *, size_t, size_t)>("__alloc_token_realloc");
    auto *made = token_function<void *(size_t, size_t)>("__alloc_token__Znwm");
    auto *made_array = token_function<void *(size_t, size_t)>("__alloc_token__Znam");
    auto *aligned = token_function<void *(size_t, size_t, size_t)>("__alloc_token_memalign");
    expect_tag_counts([=](uint64_t tag) { return plain(BYTES, tag); });
    expect_tag_counts([=](uint64_t tag) { return zeroed(1, BYTES, tag); });
    expect_tag_counts([=](uint64_t tag) { return resized(nullptr, BYTES, tag); });
    expect_tag_counts([=](uint64_t tag) { return made(BYTES, tag); });
    expect_tag_counts([=](uint64_t tag) { return made_array(BYTES, tag); });
    expect_tag_counts([=](uint64_t tag) { return aligned(16, BYTES, tag); });
}

/* Seen to fail with names that share a token. */
TEST(AllocToken, ATokenInTheNameIsTheSameTag)
{
    grow_heap();
    unsigned apart = 0;
    for (uint64_t token = 1; token < 8; token++) {
        std::string name = "__alloc_token_" + std::to_string(token) + "_malloc";
        auto *function = token_function<void *(size_t)>(name.c_str());
        auto units = units_of([=](uint64_t) { return function(BYTES); }, token);
        EXPECT_TRUE(
            do_meet(units, units_of([](uint64_t t) { return calm_malloc_at(BYTES, t); }, token)));
        apart += !do_meet(
            units, units_of([](uint64_t t) { return calm_malloc_at(BYTES, t); }, token % 7 + 1));
    }
    EXPECT_GE(apart, 4u);
}

TEST(AllocToken, TheFunctionsDoWhatTheirModelsDo)
{
    auto *zeroed = token_function<void *(size_t, size_t, size_t)>("__alloc_token_calloc");
    auto *block = static_cast<unsigned char *>(zeroed(100, 10, 5));
    ASSERT_NE(block, nullptr);
    for (unsigned i = 0; i < 1000; i++)
        EXPECT_EQ(block[i], 0u);
    EXPECT_EQ(zeroed(SIZE_MAX, 2, 5), nullptr);
    std::memset(block, 7, 1000);
    auto *resized = token_function<void *(void *, size_t, size_t)>("__alloc_token_realloc");
    block = static_cast<unsigned char *>(resized(block, 5000, 6));
    EXPECT_EQ(block[0] + block[999], 14);
    std::free(block);
    using Array = void *(void *, size_t, size_t, size_t);
    EXPECT_EQ(token_function<Array>("__alloc_token_reallocarray")(nullptr, SIZE_MAX, 2, 5),
              nullptr);

    void *out = &block;
    using Posix = int(void **, size_t, size_t, size_t);
    auto *posix = token_function<Posix>("__alloc_token_posix_memalign");
    EXPECT_EQ(posix(&out, 3, 8, 5), EINVAL);
    EXPECT_EQ(out, &block);
    ASSERT_EQ(posix(&out, 4096, 8, 5), 0);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(out) % 4096, 0u);
    std::free(out);
    for (const char *name : {"__alloc_token_valloc", "__alloc_token_pvalloc"}) {
        void *page = token_function<void *(size_t, size_t)>(name)(1, 5);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(page) % 4096, 0u);
        std::free(page);
    }

    using New = void *(size_t, size_t);
    using NewNothrow = void *(size_t, const std::nothrow_t &, size_t);
    using NewAligned = void *(size_t, std::align_val_t, size_t);
    EXPECT_THROW(token_function<New>("__alloc_token__Znwm")(SIZE_MAX / 2, 5), std::bad_alloc);
    EXPECT_EQ(token_function<NewNothrow>("__alloc_token__ZnwmRKSt9nothrow_t")(SIZE_MAX / 2,
                                                                              std::nothrow, 5),
              nullptr);
    auto *aligned = token_function<NewAligned>("__alloc_token__ZnwmSt11align_val_t");
    void *made = aligned(100, std::align_val_t(256), 5);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(made) % 256, 0u);
    ::operator delete(made, std::align_val_t(256));
    struct Sized {
        void *block;
        size_t bytes;
    };
    Sized sized = token_function<Sized(size_t, size_t)>("__alloc_token___size_returning_new")(50,
                                                                                              5);
    EXPECT_EQ(sized.bytes, malloc_usable_size(sized.block));
    ::operator delete(sized.block);
}

TEST(TagHere, ALineHasATagThatIsTheSameInCAndInCxx)
{
    uint64_t tags[3];
    c_tags(tags);
    EXPECT_EQ(tags[0], tags[1]);
    EXPECT_NE(tags[1], tags[2]);
    constexpr uint64_t here = CALM_HERE; /* the compiler knows it */
    EXPECT_NE(here, tags[0]);
    EXPECT_NE(here, CALM_HERE);
    uint64_t same_name =
#line 7 "same_name"
        CALM_HERE;
    EXPECT_EQ(same_name, c_tag_of_same_name());
#line 8 "same_name"
    EXPECT_NE(same_name, CALM_HERE);
#line 7 "same_nbme"
    EXPECT_NE(same_name, CALM_HERE);
}

#line 260 "tag_test.cpp"
TEST(TagHere, TheMacrosOfCAllocate)
{
    void *blocks[4];
    c_blocks(blocks);
    for (void *block : blocks) {
        EXPECT_GE(malloc_usable_size(block), 48u);
        std::free(block);
    }
}

struct Counted {
    static int alive;
    explicit Counted(bool is_thrown = false)
    {
        if (is_thrown)
            throw 1;
        alive++;
    }
    ~Counted()
    {
        alive--;
    }
    char bytes[40] = {};
};
int Counted::alive;

struct alignas(128) Wide {
    char bytes[128];
};

/* Seen to fail with an operator new that ignores the alignment. */
TEST(TagHere, NewMakesObjectsThatAnOrdinaryDeleteEnds)
{
    Counted *one = CALM_NEW(Counted)();
    Counted *many = CALM_NEW(Counted[5]);
    EXPECT_EQ(Counted::alive, 6);
    delete one;
    delete[] many;
    EXPECT_EQ(Counted::alive, 0);
    for (unsigned i = 0; i < 20; i++) {
        Wide *wide = CALM_NEW(Wide);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(wide) % 128, 0u);
        delete wide;
    }
    EXPECT_THROW(CALM_NEW(Counted)(true), int);
    EXPECT_THROW(::operator new(SIZE_MAX / 2, calm::tag{1}), std::bad_alloc);
}

} // namespace
