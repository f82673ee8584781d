// consumer.cpp: the same for operator new, in a program with exceptions and threads.
#include <calmalloc/calmalloc.h>
#include <cstdio>
#include <new>
#include <thread>
#include <vector>

int main()
{
    bool is_ours = true;
    std::thread([&] {
        for (std::size_t size = 1; size < 5000; size++) {
            std::vector<char> block(size);
            is_ours = is_ours && calm_usable_size(block.data()) >= size;
        }
    }).join();
    bool is_thrown = false;
    try {
        volatile std::size_t huge = static_cast<std::size_t>(1) << 60;
        ::operator delete(::operator new(huge));
    } catch (const std::bad_alloc &) {
        is_thrown = true;
    }
    std::printf("new %s bad_alloc %s\n", is_ours ? "ours" : "foreign",
                is_thrown ? "thrown" : "lost");
    return 0;
}
