// A C++ program that a tested compiler compiles and that then runs itself on the library: templates
// to make the compiler work, containers, strings, threads, exceptions and over-aligned types for
// the allocator.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <functional>
#include <future>
#include <iostream>
#include <list>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace
{

template <unsigned N> struct fibonacci {
    static constexpr std::uint64_t value = fibonacci<N - 1>::value + fibonacci<N - 2>::value;
};
template <> struct fibonacci<0> {
    static constexpr std::uint64_t value = 0;
};
template <> struct fibonacci<1> {
    static constexpr std::uint64_t value = 1;
};

template <std::size_t... I>
std::array<std::uint64_t, sizeof...(I)> fibonaccis(std::index_sequence<I...>)
{
    return {fibonacci<I>::value...};
}

struct alignas(256) wide {
    std::array<unsigned char, 700> bytes{};
};

struct node {
    explicit node(int depth)
        : text(static_cast<std::size_t>(depth * 9), static_cast<char>('a' + depth))
    {
        if (depth > 0) {
            left = std::make_unique<node>(depth - 1);
            right = std::make_shared<node>(depth - 1);
        }
    }
    std::size_t weigh() const
    {
        return text.size() + (left ? left->weigh() + right->weigh() : 0);
    }
    std::string text;
    std::unique_ptr<node> left;
    std::shared_ptr<node> right;
};

std::uint64_t containers(unsigned seed)
{
    std::mt19937 random(seed);
    std::map<std::string, std::vector<unsigned>> map;
    std::unordered_map<unsigned, std::string> hash;
    std::list<std::tuple<int, std::string>> list;
    std::deque<std::unique_ptr<std::string>> deque;
    for (int i = 0; i < 40000; i++) {
        map["key" + std::to_string(random() % 5000)].push_back(random());
        hash[random() % 20000] += static_cast<char>('a' + i % 26);
        list.emplace_back(i, std::string(random() % 50, 'l'));
        deque.push_back(std::make_unique<std::string>(std::to_string(i)));
        if (i % 3 == 0) {
            hash.erase(random() % 20000);
            list.pop_front();
            deque.pop_front();
        }
    }
    list.sort(
        [](const auto &a, const auto &b) { return std::get<1>(a).size() < std::get<1>(b).size(); });
    std::uint64_t sum = map.size() * 3 + hash.size() * 5 + list.size() * 7 + deque.back()->size();
    for (const auto &[key, values] : map)
        sum += std::accumulate(values.begin(), values.end(), key.size());
    return sum;
}

std::size_t aligned_objects()
{
    std::vector<std::unique_ptr<wide>> wides;
    std::size_t wrong = 0;
    for (int i = 0; i < 3000; i++) {
        wides.push_back(std::make_unique<wide>());
        wrong += reinterpret_cast<std::uintptr_t>(wides.back().get()) % alignof(wide) != 0;
        if (i % 2 == 0)
            wides[wides.size() / 2].reset();
    }
    return wrong;
}

std::string thrown()
{
    std::string caught;
    for (int i = 0; i < 2000; i++) {
        try {
            std::vector<int> some(10);
            if (some.at(static_cast<std::size_t>(i % 20)) == 0)
                throw std::runtime_error("thrown " + std::to_string(i));
        } catch (const std::out_of_range &) {
            caught += 'o';
        } catch (const std::runtime_error &error) {
            caught += error.what()[7];
        }
    }
    volatile std::size_t too_much = SIZE_MAX / 2;
    try {
        std::unique_ptr<char[]> never(new char[too_much]);
    } catch (const std::bad_alloc &) {
        caught += " bad_alloc";
    }
    return caught.substr(1990);
}

std::uint64_t crossing_threads()
{
    std::vector<std::thread> threads;
    std::vector<std::promise<std::vector<std::string>>> promises(8);
    std::uint64_t sum = 0;
    for (unsigned t = 0; t < promises.size(); t++) {
        threads.emplace_back([&promises, t] {
            std::vector<std::string> made;
            for (unsigned i = 0; i < 20000; i++)
                made.emplace_back(i % 300, static_cast<char>('a' + t));
            promises[t].set_value(std::move(made));
        });
    }
    for (auto &promise : promises)
        for (const std::string &text : promise.get_future().get())
            sum += text.size() + (text.empty() ? 0u : static_cast<unsigned>(text.back()));
    for (auto &thread : threads)
        thread.join();
    return sum;
}

std::size_t text()
{
    std::ostringstream out;
    for (int i = 0; i < 20000; i++)
        out << i << ' ' << i * 0.5 << '\n';
    const std::string all = out.str();
    const std::regex pattern("([0-9]+)\\.5");
    const std::sregex_iterator first(all.begin(), all.begin() + 60000, pattern);
    return static_cast<std::size_t>(std::distance(first, std::sregex_iterator()));
}

} // namespace

int main()
{
    const auto numbers = fibonaccis(std::make_index_sequence<80>());
    std::cout << "fibonacci " << numbers.back() << '\n';
    for (unsigned seed = 0; seed < 4; seed++)
        std::cout << "containers " << containers(seed) << '\n';
    std::cout << "tree " << node(14).weigh() << '\n';
    std::cout << "misaligned " << aligned_objects() << '\n';
    std::cout << "exceptions " << thrown() << '\n';
    std::cout << "threads " << crossing_threads() << '\n';
    std::cout << "text " << text() << std::endl;
    return numbers[10] == 55 ? 0 : 1;
}
