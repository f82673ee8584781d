/*
 * dlopen_plugin.c: a plugin (its path is the first argument) that allocates when it is loaded,
 * called and unloaded is opened and closed many times, in the main thread and in threads that end
 * with the plugin's thread-local objects alive. What it allocated is freed after it is gone.
 */
#define _GNU_SOURCE

#include "check.h"

#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>

enum { BLOCKS = 200 };

static const char *plugin_path;
static void *left_behind[BLOCKS];

static void *plugin_handle;

static void call_plugin(void *handle)
{
    void *(*call)(size_t);
    *(void **)&call = dlsym(handle, "plugin_call");
    CHECK(call != NULL, "%s", dlerror());
    for (size_t i = 0; i < BLOCKS; i++) {
        free(left_behind[i]);
        left_behind[i] = call(10 + i * 50);
        CHECK(malloc_usable_size(left_behind[i]) >= 10 + i * 50, "the plugin uses another heap");
    }
}

static void *open_call_close(void *argument)
{
    (void)argument;
    void *handle = dlopen(plugin_path, RTLD_NOW | RTLD_LOCAL);
    CHECK(handle != NULL, "%s", dlerror());
    call_plugin(handle);
    CHECK(dlclose(handle) == 0, "%s", dlerror());
    return NULL;
}

static void *open_call(void *argument)
{
    (void)argument;
    plugin_handle = dlopen(plugin_path, RTLD_NOW | RTLD_LOCAL);
    CHECK(plugin_handle != NULL, "%s", dlerror());
    call_plugin(plugin_handle);
    return NULL;
}

int main(int argc, char **argv)
{
    CHECK(argc == 2, "usage: dlopen_plugin PLUGIN");
    plugin_path = argv[1];
    check_is_calmalloc();
    check_time_limit(60);
    pthread_t thread;
    for (int i = 0; i < 30; i++) {
        open_call_close(NULL);
        CHECK(pthread_create(&thread, NULL, open_call_close, NULL) == 0, "no thread");
        pthread_join(thread, NULL);
        CHECK(pthread_create(&thread, NULL, open_call, NULL) == 0, "no thread");
        pthread_join(thread, NULL);
        CHECK(dlclose(plugin_handle) == 0, "%s", dlerror());
    }
    for (size_t i = 0; i < BLOCKS; i++)
        free(left_behind[i]);
    return 0;
}
