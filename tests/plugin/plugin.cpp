/*
 * plugin.cpp: a C++ plug-in whose requests cannot be met. Each function returns 0 when the C++
 * library did what the standard says.
 */
#include <cstddef>
#include <cstdint>
#include <new>
#include <string>

namespace
{

constexpr std::size_t TOO_MUCH = std::size_t{1} << 60;
constexpr std::align_val_t FAR_APART{4096};

unsigned calls;

void handler()
{
    if (++calls == 3)
        std::set_new_handler(nullptr);
}

[[noreturn]] void throwing_handler()
{
    calls++;
    throw std::bad_alloc();
}

template <class Request> int throws(Request request)
{
    try {
        void *volatile unused = request();
        (void)unused;
        return 1;
    } catch (const std::bad_alloc &) {
        return 0;
    } catch (...) {
        return 2; /* another library's exception */
    }
}

/* Of a handler that frees nothing, called three times. */
template <class Request> int asks(Request request)
{
    calls = 0;
    std::set_new_handler(handler);
    int result = throws(request);
    return result != 0 ? result : calls == 3 ? 0 : 3;
}

} // namespace

extern "C" int plugin_new()
{
    return throws([] { return ::operator new(TOO_MUCH); });
}

extern "C" int plugin_array()
{
    return throws([] { return ::operator new[](TOO_MUCH); });
}

extern "C" int plugin_aligned()
{
    return throws([] { return ::operator new(TOO_MUCH, FAR_APART); });
}

extern "C" int plugin_handler()
{
    return asks([] { return ::operator new(TOO_MUCH); });
}

extern "C" int plugin_handler_aligned()
{
    return asks([] { return ::operator new(TOO_MUCH, FAR_APART); });
}

extern "C" int plugin_nothrow()
{
    return ::operator new(TOO_MUCH, std::nothrow) ==
                   nullptr && ::operator new(TOO_MUCH, FAR_APART, std::nothrow) == nullptr
               ? 0
               : 1;
}

/* What the handler throws stays inside. */
extern "C" int plugin_handler_nothrow()
{
    calls = 0;
    std::set_new_handler(throwing_handler);
    void *block = ::operator new(TOO_MUCH, std::nothrow);
    void *aligned = ::operator new(TOO_MUCH, FAR_APART, std::nothrow);
    std::set_new_handler(nullptr);
    return block == nullptr && aligned == nullptr && calls == 2 ? 0 : 1;
}

/* The request comes from inside the C++ library. */
extern "C" int plugin_string()
{
    try {
        std::string text;
        text.reserve(std::size_t{1} << 59);
        return 1;
    } catch (const std::bad_alloc &) {
        return 0;
    }
}

/* Small ones, until there are no more. */
extern "C" int plugin_all_of_it()
{
    try {
        for (void *newest = nullptr;;) {
            void *block = ::operator new(48);
            *static_cast<void **>(block) = newest;
            newest = block;
        }
    } catch (const std::bad_alloc &) {
        return 0;
    }
}
