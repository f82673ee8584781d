// shop.cpp: the program of the pictures: a shop that has users, a cache of which most was dropped,
// images, and orders that nobody forgets. Each byte of its standard input is a while of business,
// and it ends with it. With a number as its word there are so many, and then it ends.
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <string>
#include <unistd.h>
#include <unordered_map>
#include <vector>

namespace shop
{

struct User {
    char name[180];
};

struct Order {
    long number;
    char items[480];
};

struct Page {
    char text[900];
};

// They stay to the end.
auto &users = *new std::vector<std::unique_ptr<User>>;
auto &orders = *new std::vector<std::unique_ptr<Order>>;
auto &pages = *new std::unordered_map<long, std::unique_ptr<Page>>;
auto &images = *new std::vector<std::unique_ptr<char[]>>;

__attribute__((noinline)) void register_user()
{
    users.push_back(std::make_unique<User>());
}

__attribute__((noinline)) void place_order(long number)
{
    orders.push_back(std::make_unique<Order>());
    orders.back()->number = number;
}

__attribute__((noinline)) void render_page(long number)
{
    pages[number] = std::make_unique<Page>();
}

__attribute__((noinline)) void load_image(size_t size)
{
    images.push_back(std::make_unique<char[]>(size));
    std::memset(images.back().get(), 1, size);
}

// A page in ten is asked for again, and stays.
void drop_pages()
{
    for (auto it = pages.begin(); it != pages.end();)
        it = it->first % 10 ? pages.erase(it) : std::next(it);
}

void open()
{
    for (long number = 0; number < 40000; number++) {
        register_user();
        render_page(number);
    }
    for (int number = 0; number < 12; number++)
        load_image(400000 + 50000 * static_cast<size_t>(number));
    drop_pages();
}

void trade()
{
    for (int count = 0; count < 3000; count++)
        place_order(static_cast<long>(orders.size()));
    if (orders.size() % 10000 == 0)
        load_image(900000);
}

} // namespace shop

int main(int count, char **words)
{
    char mark;
    shop::open();
    if (count > 1) {
        for (int left = std::atoi(words[1]); left > 0; left--)
            shop::trade();
        return 0;
    }
    std::cout << "open" << std::endl;
    while (read(0, &mark, 1) == 1)
        shop::trade();
    return 0;
}
