/*
 * containers.cpp: calm::allocator and the resources of calm::heap() and of pools under the
 * containers of Abseil and Boost. Exits 0 when all hold what they were given and no block was freed
 * wrongly.
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

/* Without what caches keep of maps that are gone. */
std::size_t live_bytes()
{
    calm_stats stats = calm::stats();
    return stats.allocated_bytes - stats.cached_bytes;
}

/* Inserts, overwrites and erases, beside a plain array that says what must be there. */
template <class Map> void use_map(const char *what)
{
    enum { KEYS = 5000, STEPS = 60000 };
    Map map;
    std::vector<std::size_t> truth(KEYS, 0);
    std::size_t before = live_bytes();
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
    require(live_bytes() > before + KEYS * sizeof(pair) / 2, what);
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

/* The same number of entries in a map that takes all of its memory from a pool. */
template <class Map> void use_pool(const char *what)
{
    calm::pool pool({{64, 40}, {1024, 30}, {65536, 30}}, 8 << 20);
    calm::pool_resource resource = pool.resource();
    {
        Map map{typename Map::allocator_type(&resource)};
        for (int i = 0; i < 3000; i++)
            map.emplace(i * 7, i);
        for (int i = 0; i < 3000; i += 2)
            map.erase(i * 7);
        require(map.size() == 1500 && map.find(7)->second == 1, what);
        require(pool.owns(&*map.find(7)), what);
    }
    calm_pool_stats stats = pool.stats();
    std::uint64_t allocs = 0;
    for (std::size_t i = 0; i < stats.classes; i++) {
        require(stats.by_class[i].free_blocks == stats.by_class[i].blocks, what);
        allocs += stats.by_class[i].allocs;
    }
    require(allocs >= 100 && stats.misuses == 0, what); /* a B-tree's node holds many entries */
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
    using pmr_pair = std::pmr::polymorphic_allocator<std::pair<const int, int>>;
    use_pool<absl::btree_map<int, int, less, pmr_pair>>("btree_map in a pool");
    use_pool<absl::node_hash_map<int, int, absl::flat_hash_map<int, int>::hasher,
                                 absl::flat_hash_map<int, int>::key_equal, pmr_pair>>(
        "node_hash_map in a pool");
    use_pool<boost::container::map<int, int, less, pmr_pair>>("boost map in a pool");
    calm_stats stats = calm::stats();
    require(stats.misuses == 0 && stats.foreign_frees == 0, "a wrong free");
    require(calm_verify() == nullptr, "an invariant of the heap");
    std::puts("all hold");
    return 0;
}
