/*
 * program.cpp: a C++ program that throws nothing itself, so that it has no more of the C++ library
 * than it needs to catch.
 */
#include <cstddef>
#include <cstdio>
#include <new>

namespace
{

constexpr std::size_t TOO_MUCH = std::size_t{1} << 60;
unsigned calls;

template <class Request> bool throws(Request request)
{
    try {
        void *volatile unused = request();
        (void)unused;
        return false;
    } catch (const std::bad_alloc &) {
        return true;
    }
}

bool check(bool condition, const char *what)
{
    if (!condition)
        std::puts(what);
    return condition;
}

} // namespace

int main()
{
    bool is_fine = check(throws([] { return ::operator new(TOO_MUCH); }), "new");
    is_fine &= check(throws([] { return ::operator new[](TOO_MUCH); }), "new[]");
    is_fine &= check(throws([] { return ::operator new(TOO_MUCH, std::align_val_t{64}); }),
                     "aligned new");
    is_fine &= check(::operator new(TOO_MUCH, std::nothrow) == nullptr, "nothrow new");
    std::set_new_handler([] {
        if (++calls == 2)
            std::set_new_handler(nullptr);
    });
    is_fine &= check(throws([] { return ::operator new(TOO_MUCH); }) && calls == 2, "new-handler");
    return is_fine ? 0 : 1;
}
