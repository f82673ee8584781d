/*
 * bare.cpp: calmalloc.hpp in a program that is compiled without exceptions and without types at run
 * time, as programs with deadlines often are. Exits 0; with an argument it asks for what cannot be
 * had (heap, array, tag, pool, classes), and ends with a sentence.
 */
#include <calmalloc.hpp>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

namespace
{

struct order : calm::object {
    int quantity = 7;
};

int check(bool holds, const char *what)
{
    if (!holds)
        std::printf("does not hold: %s\n", what);
    return holds ? 0 : 1;
}

int use_everything()
{
    int wrong = 0;
    std::vector<int, calm::allocator<int>> numbers(1000, 7);
    std::pmr::map<int, int> squares(calm::heap());
    for (int n = 0; n < 1000; n++)
        squares[n] = n * n;
    wrong += check(numbers[999] == 7 && squares[30] == 900, "containers keep what they are given");
    wrong += check(calm_usable_size(numbers.data()) >= 4000, "containers are on our heap");
    order *one = new order, *other = new (std::nothrow) order;
    wrong += check(one->quantity + other->quantity == 14, "objects are made");
    delete one;
    delete other;
    calm::pool pool({{64, 50}, {1024, 50}}, 1 << 20);
    calm::pool_resource resource = pool.resource();
    std::pmr::vector<int> prices(10, 3, &resource);
    wrong += check(pool.owns(prices.data()), "containers are in the pool");
    wrong += check(resource.is_equal(resource) && !resource.is_equal(*calm::heap()),
                   "a resource equals itself and no other kind");
    wrong += check(pool.make<order>() != nullptr, "an object is made in the pool");
    wrong += check(calm::stats().misuses == 0, "no free was wrong");
    return wrong;
}

void ask_for_too_much(const char *of)
{
    if (std::strcmp(of, "heap") == 0)
        (void)calm::heap()->allocate(PTRDIFF_MAX);
    if (std::strcmp(of, "array") == 0)
        (void)calm::allocator<int>().allocate(SIZE_MAX / 2);
    if (std::strcmp(of, "tag") == 0)
        (void)operator new(PTRDIFF_MAX, calm::tag{7});
    calm::pool pool({{64, 100}}, 1 << 16);
    if (std::strcmp(of, "pool") == 0)
        (void)pool.resource().allocate(65);
    if (std::strcmp(of, "classes") == 0)
        calm::pool wrong({{64, 50}, {32, 50}}, 1 << 16);
}

} // namespace

int main(int count, char **words)
{
    if (count == 1)
        return use_everything();
    std::signal(SIGABRT, [](int) { std::_Exit(0); }); /* what it said is what counts */
    ask_for_too_much(words[1]);
    return 1;
}
