/*
 * wrapped.cpp: a program that allocates by new, by containers and by strings, whose memory the C++
 * library asks for. The sites are the functions that begin with fill_ and make_.
 */
#include <map>
#include <memory>
#include <string>
#include <vector>

#define NOINLINE __attribute__((noinline))

namespace
{

struct Shape {
    double x, y;
    int kind;
};

NOINLINE Shape *make_shape(int kind)
{
    return new Shape{1.0 * kind, 2.0, kind};
}

NOINLINE void fill_map(std::map<int, Shape> &map, int i)
{
    map[i] = Shape{0.5, 0.5, i};
}

NOINLINE void fill_vector(std::vector<int> &vector, int i)
{
    std::vector<int> made(static_cast<size_t>(i % 100 + 20));
    vector.swap(made);
}

#define NAME(function, words)                                                                      \
    NOINLINE void function(std::string &to, int i)                                                 \
    {                                                                                              \
        to = std::string(words).substr(0, static_cast<size_t>(20 + i % 20)) + "tail";              \
    }

NAME(make_title, "a title that is too long to lie in the string itself")
NAME(make_author, "an author whose name is a little longer than that too")
NAME(make_place, "a place that nobody has ever heard of, but is far away")
NAME(make_note, "a note on something else, which is also not that short")

} // namespace

int main()
{
    enum { THINGS = 60000, ROUNDS = 400000 };
    std::map<int, Shape> map;
    std::vector<std::unique_ptr<Shape>> shapes(THINGS);
    std::vector<std::vector<int>> vectors(THINGS);
    std::vector<std::string> strings(THINGS);
    for (int i = 0; i < ROUNDS; i++) {
        size_t at = static_cast<size_t>(i * 7919L % THINGS);
        shapes[at].reset(make_shape(i));
        fill_vector(vectors[at], i);
        fill_map(map, i % (THINGS + i / 8));
        std::string &words = strings[at];
        switch (i * 31L / 7 % 4) {
        case 0: make_title(words, i); break;
        case 1: make_author(words, i); break;
        case 2: make_place(words, i); break;
        default: make_note(words, i);
        }
    }
    return 0;
}
