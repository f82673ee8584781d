/*
 * containers.cpp: calm::allocator and calm::heap() under the containers of Abseil and Boost. Exits
 * 0 when all hold what they were given and no block was freed wrongly.
 */
#include "calmalloc.hpp"

#include <absl/container/btree_map.h>
#include <absl/container/flat_hash_map.h>
#include <absl/container/inlined_vector.h>
#include <absl/container/node_hash_map.h>
#include <boost/container/deque.hpp>
#include <boost/container/flat_map.hpp>
#include <boost/container/map.hpp>
#include <boost/container/stable_vector.hpp>
#include <boost/container/string.hpp>
#include <boost/unordered_map.hpp>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace
{

template <class T> using alloc = calm::allocator<T>;
using string = std::basic_string<char, std::char_traits<char>, alloc<char>>;
using pair = std::pair<const int, string>;

void require(bool condition, const char *what)
{
    if (!condition) {
        std::fprintf(stderr, "containers: %s\n", what);
        std::exit(1);
    }
}

/* Inserts, overwrites and erases, beside a plain array that says what must be there. */
template <class Map> void use_map(const char *what)
{
    enum { KEYS = 5000, STEPS = 60000 };
    Map map;
    std::vector<std::size_t> truth(KEYS, 0);
    std::size_t before = calm::stats().allocated_bytes;
    unsigned number = 1;
    for (int step = 0; step < STEPS; step++) {
        number = number * 1664525 + 1013904223;
        int key = static_cast<int>(number >> 8) % KEYS;
        std::size_t length = number >> 20 & 127;
        if (length % 4 == 0) {
            map.erase(key);
            truth[static_cast<std::size_t>(key)] = 0;
        } else {
            map[key] = string(length, 'x');
            truth[static_cast<std::size_t>(key)] = length;
        }
    }
    require(calm::stats().allocated_bytes > before, what);
    std::size_t count = 0;
    for (std::size_t key = 0; key < KEYS; key++) {
        auto found = map.find(static_cast<int>(key));
        require((found != map.end()) == (truth[key] != 0), what);
        require(found == map.end() || found->second.size() == truth[key], what);
        count += truth[key] != 0;
    }
    require(map.size() == count, what);
}

template <class List> void use_list(const char *what)
{
    List list;
    for (int i = 0; i < 30000; i++)
        list.push_back(i);
    list.erase(list.begin() + 100, list.begin() + 20000);
    list.insert(list.begin() + 50, 500u, 7);
    require(list.size() == 30000u - 19900u + 500u && list.back() == 29999 && list[60] == 7, what);
}

} // namespace

int main()
{
    using less = std::less<int>;
    using absl_hash = absl::flat_hash_map<int, string>::hasher;
    using absl_equal = absl::flat_hash_map<int, string>::key_equal;
    use_map<absl::flat_hash_map<int, string, absl_hash, absl_equal, alloc<pair>>>("flat_hash_map");
    use_map<absl::node_hash_map<int, string, absl_hash, absl_equal, alloc<pair>>>("node_hash_map");
    use_map<absl::btree_map<int, string, less, alloc<pair>>>("btree_map");
    use_map<boost::container::map<int, string, less, alloc<pair>>>("boost map");
    use_map<boost::container::flat_map<int, string, less, alloc<std::pair<int, string>>>>(
        "flat_map");
    use_map<boost::unordered_map<int, string, boost::hash<int>, std::equal_to<int>, alloc<pair>>>(
        "boost unordered_map");
    use_list<absl::InlinedVector<int, 4, alloc<int>>>("InlinedVector");
    use_list<boost::container::deque<int, alloc<int>>>("boost deque");
    use_list<boost::container::stable_vector<int, alloc<int>>>("stable_vector");
    calm_stats stats = calm::stats();
    require(stats.misuses == 0 && stats.foreign_frees == 0, "a wrong free");
    require(calm_verify() == nullptr, "an invariant of the heap");
    std::puts("all hold");
    return 0;
}
