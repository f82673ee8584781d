/*
 * modules.c: a program of two constant files, at unmapped addresses.
 */
#include "os/modules.h"

#include <string.h>

int os_modules(void (*visit)(const struct os_module *, void *), void *context)
{
    static const unsigned char build_id[] = {0xca, 0x1a, 0x00, 0x01};
    static const struct os_module modules[] = {
        {0x401000, 0x403000, 0x1000, 0x400000, "/sim/program", build_id, sizeof build_id, true},
        {0x7000001000, 0x7000008000, 0x1000, 0x6ffffff000, "/sim/library", NULL, 0, false},
    };
    for (size_t i = 0; i < sizeof modules / sizeof modules[0]; i++)
        visit(&modules[i], context);
    return 0;
}

int os_maps(void (*take)(const char *, size_t, void *), void *context)
{
    static const char words[] = "00401000-00403000 r-xp 00001000 00:01 1 /sim/program\n"
                                "7000001000-7000008000 r-xp 00001000 00:01 2 /sim/library\n";
    take(words, strlen(words), context);
    return 0;
}
