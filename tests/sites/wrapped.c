/*
 * wrapped.c: a program whose every request goes through xmalloc, as many do; some through one more
 * layer. What a person would call its sites are the functions make_list, make_name and so on.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOINLINE __attribute__((noinline))

enum { ROUNDS = 400000, KEPT = 4096 };

static void *kept[KEPT];

NOINLINE static void *xmalloc(size_t bytes)
{
    void *block = malloc(bytes);
    if (block == NULL) {
        fputs("no memory\n", stderr);
        abort();
    }
    return block;
}

NOINLINE static char *xstrdup(const char *words)
{
    size_t bytes = strlen(words) + 1;
    char *copy = xmalloc(bytes);
    memcpy(copy, words, bytes);
    return copy;
}

/* Always of one size: whoever calls it, this is the site. */
NOINLINE static void *make_node(void)
{
    char *node = xmalloc(40);
    node[0] = 0;
    return node;
}

#define MAKE(name, request)                                                                        \
    NOINLINE static void *name(size_t i)                                                           \
    {                                                                                              \
        char *block = request;                                                                     \
        block[0] = (char)i;                                                                        \
        return block;                                                                              \
    }

MAKE(make_list, xmalloc(64 + i % 5 * 16))
MAKE(make_table, xmalloc(512 + i % 3 * 512))
MAKE(make_buffer, xmalloc(100 + i % 400))
MAKE(make_name, xstrdup("the name of a thing" + i % 9))
MAKE(make_path, xstrdup("/usr/share/a/longer/path/to/a/file" + i % 17))
MAKE(make_line, xstrdup("a line of text that is somewhat longer than the others are" + i % 29))
MAKE(make_word, xstrdup("word" + i % 3))
MAKE(make_first, make_node())
MAKE(make_second, make_node())

int main(void)
{
    static void *(*const makers[])(size_t) = {make_list, make_table, make_buffer,
                                              make_name, make_path,  make_line,
                                              make_word, make_first, make_second};
    for (size_t i = 0; i < ROUNDS; i++) {
        size_t place = i * 7919 % KEPT;
        free(kept[place]);
        kept[place] = makers[i * 31 / 7 % (sizeof makers / sizeof makers[0])](i);
    }
    return 0;
}
