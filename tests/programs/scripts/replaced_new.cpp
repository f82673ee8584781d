// A program with its own operator new and delete, in the base forms only: the others must come to
// these, with the pointers unchanged. Its blocks carry a header: who frees one behind its back has
// an interior pointer.
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <vector>

namespace
{
unsigned long made, gone;
constexpr std::size_t header = 32;
constexpr std::size_t page = 4096;
struct thing {
    int numbers[5];
};
struct alignas(128) wide {
    int numbers[50];
};
} // namespace

void *operator new(std::size_t size)
{
    made++;
    char *block = static_cast<char *>(std::malloc(size + header));
    if (block == nullptr)
        throw std::bad_alloc();
    return block + header;
}

void operator delete(void *block) noexcept
{
    if (block == nullptr)
        return;
    gone++;
    std::free(static_cast<char *>(block) - header);
}

void *operator new(std::size_t size, std::align_val_t align)
{
    made++;
    char *block = static_cast<char *>(
        std::aligned_alloc(static_cast<std::size_t>(align), size + 2 * page));
    if (block == nullptr)
        throw std::bad_alloc();
    return block + page;
}

void operator delete(void *block, std::align_val_t) noexcept
{
    if (block == nullptr)
        return;
    gone++;
    std::free(static_cast<char *>(block) - page);
}

static void show(const char *what)
{
    std::printf("%s: made %lu gone %lu\n", what, made, gone);
    made = gone = 0;
}

int main()
{
    delete new thing;
    show("single, sized delete");
    thing *volatile array = new thing[100];
    delete[] array;
    show("array");
    int *volatile quiet = new (std::nothrow) int(7);
    delete quiet;
    int *volatile quiet_array = new (std::nothrow) int[70];
    operator delete[](quiet_array, std::nothrow);
    show("nothrow");
    ::operator delete(::operator new(48), std::size_t{48});
    ::operator delete[](::operator new[](4800), std::size_t{4800});
    show("explicit sizes");
    delete new wide;
    wide *volatile wides = new wide[10];
    delete[] wides;
    wide *volatile quiet_wide = new (std::nothrow) wide;
    delete quiet_wide;
    show("aligned");
    {
        std::map<std::string, std::vector<std::shared_ptr<std::string>>> map;
        for (int i = 0; i < 5000; i++)
            map[std::string(40, char('a' + i % 20))].push_back(
                std::make_shared<std::string>(60, 'x'));
    }
    show("containers");
}
