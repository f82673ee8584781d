/*
 * host.c: a C program that opens C++ plug-ins and has each of them ask for more than there is.
 *
 * Arguments: how to open them, and their paths. "exhausted": one plug-in, in a child that takes
 * small blocks until there are no more, so that nothing is left for the loader either.
 */
#define _GNU_SOURCE

#include "../environment/check.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { ROUNDS = 3, PLUGINS_MAX = 2 };

static const char *const functions[] = {
    "plugin_new",     "plugin_array",           "plugin_aligned", "plugin_handler",
    "plugin_nothrow", "plugin_handler_aligned", "plugin_string",  "plugin_handler_nothrow"};

static int call(void *plugin, const char *name)
{
    int (*function)(void);
    *(void **)&function = dlsym(plugin, name);
    CHECK(function != NULL, "%s", dlerror());
    return function();
}

static void ask(void *plugin, const char *path)
{
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        int result = call(plugin, functions[i]);
        CHECK(result == 0, "%s of %s: %d", functions[i], path, result);
    }
}

/* In turns, then without one and with it again: nothing may be left of a plug-in that is gone. */
static void open_and_ask(char **paths, int count, int mode)
{
    void *plugins[PLUGINS_MAX];
    for (int i = 0; i < count; i++) {
        plugins[i] = dlopen(paths[i], RTLD_NOW | mode);
        CHECK(plugins[i] != NULL, "%s", dlerror());
    }
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < count; i++)
            ask(plugins[i], paths[i]);
    for (int i = 0; i < count; i++)
        CHECK(dlclose(plugins[i]) == 0, "%s", dlerror());
}

static void ask_without_memory(const char *path)
{
    void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CHECK(plugin != NULL, "%s", dlerror());
    pid_t child = fork();
    if (child == 0) {
        struct rlimit limit = {64 * MIB, 64 * MIB};
        setrlimit(RLIMIT_DATA, &limit);
        _exit(call(plugin, "plugin_all_of_it"));
    }
    check_child_succeeds(child, "the child without memory");
}

int main(int argc, char **argv)
{
    if (argc == 2)
        check_skip("no clang++ with libc++ (Debian: clang-19 libc++-19-dev)");
    CHECK(argc >= 3 && argc <= 2 + PLUGINS_MAX, "usage: host local|global|exhausted PLUGIN...");
    check_time_limit(100);
    check_is_calmalloc();
    if (strcmp(argv[1], "exhausted") == 0) {
        ask_without_memory(argv[2]);
        return 0;
    }
    for (int round = 0; round < ROUNDS; round++)
        open_and_ask(argv + 2, argc - 2, strcmp(argv[1], "local") == 0 ? RTLD_LOCAL : RTLD_GLOBAL);
    return 0;
}
