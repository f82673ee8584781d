/*
 * glib.c: a program on GLib: its requests go through g_malloc and what GLib builds on it. Declared
 * here, so that it compiles without GLib's headers.
 */
#include <stddef.h>

#define NOINLINE __attribute__((noinline))

void *g_malloc(size_t bytes);
char *g_strdup(const char *words);
char *g_strdup_printf(const char *format, ...);
void g_free(void *block);

enum { ROUNDS = 300000, KEPT = 4096 };

static void *kept[KEPT];

#define MAKE(name, request)                                                                        \
    NOINLINE static void *name(unsigned i)                                                         \
    {                                                                                              \
        char *block = request;                                                                     \
        block[0] = (char)i;                                                                        \
        return block;                                                                              \
    }

MAKE(make_record, g_malloc(64 + i % 5 * 16))
MAKE(make_table, g_malloc(512 + i % 3 * 512))
MAKE(make_buffer, g_malloc(100 + i % 400))
MAKE(make_small, g_malloc(8 + i % 4 * 8))
MAKE(make_name, g_strdup("the name of a thing" + i % 9))
MAKE(make_path, g_strdup("/usr/share/a/longer/path/to/a/file" + i % 17))
MAKE(make_line, g_strdup("a line of text that is somewhat longer than the others" + i % 29))
MAKE(make_word, g_strdup("word" + i % 3))
MAKE(make_printed, g_strdup_printf("number %u of %u", i, ROUNDS))

int main(void)
{
    static void *(*const makers[])(unsigned) = {make_record, make_table, make_buffer,
                                                make_small,  make_name,  make_path,
                                                make_line,   make_word,  make_printed};
    for (unsigned i = 0; i < ROUNDS; i++) {
        unsigned place = i * 7919u % KEPT;
        g_free(kept[place]);
        kept[place] = makers[i * 31u / 7 % (sizeof makers / sizeof makers[0])](i);
    }
    return 0;
}
