// A C++ translation unit that makes the compiler work: containers, algorithms and recursive
// templates. Compiled to assembly with -O1, never run. Measures the compiler's own trees: very many
// small nodes that live long.
#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

template <unsigned Depth, typename... Types> struct chain
    : chain<Depth - 1, std::integral_constant<unsigned, Depth>, Types...> {
    using below = chain<Depth - 1, std::integral_constant<unsigned, Depth>, Types...>;
    static constexpr unsigned long sum()
    {
        return Depth + below::sum();
    }
};

template <typename... Types> struct chain<0, Types...> {
    using all = std::tuple<Types...>;
    static constexpr unsigned long sum()
    {
        return sizeof...(Types);
    }
};

template <unsigned Number> struct record {
    std::array<int, Number % 7 + 1> values{};
    std::string name = std::to_string(Number);
    bool operator<(const record &other) const
    {
        return std::tie(name, values) < std::tie(other.name, other.values);
    }
};

template <unsigned Number> unsigned long exercise(unsigned long start)
{
    std::map<record<Number>, std::vector<std::string>> by_record;
    std::unordered_map<std::string, std::shared_ptr<record<Number>>> by_name;
    std::deque<std::variant<int, std::string, record<Number>>> mixed;
    std::function<unsigned long(unsigned long)> step = [&](unsigned long value) {
        return value * 31 + by_name.size();
    };
    for (unsigned i = 0; i < Number; i++) {
        record<Number> fresh;
        fresh.values[0] = static_cast<int>(start + i);
        by_record[fresh].push_back(fresh.name);
        by_name.emplace(fresh.name, std::make_shared<record<Number>>(fresh));
        mixed.emplace_back(fresh);
        start = step(start);
    }
    std::vector<unsigned long> weights(by_record.size(), start);
    std::sort(weights.begin(), weights.end(), std::greater<>());
    for (const auto &item : mixed)
        start += std::visit(
            [](const auto &value) { return static_cast<unsigned long>(sizeof value); }, item);
    return std::accumulate(weights.begin(), weights.end(), start) + chain<Number % 60 + 40>::sum();
}

template <unsigned... Numbers>
unsigned long exercise_all(unsigned long start, std::integer_sequence<unsigned, Numbers...>)
{
    ((start = exercise<Numbers + 1>(start)), ...);
    return start;
}

unsigned long entry(unsigned long start)
{
    return exercise_all(start, std::make_integer_sequence<unsigned, 4>());
}
