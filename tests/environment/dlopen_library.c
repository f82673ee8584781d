/*
 * dlopen_library.c: a program on another allocator opens libcalmalloc at run time (its path is the
 * first argument), uses it by its calm_ names, and closes it: in the main thread, many times, and
 * in a thread that ends afterwards. The destructors of that thread must not jump into memory where
 * the library was.
 */
#define _GNU_SOURCE

#include "check.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const char *library_path;

struct names {
    void *handle;
    void *(*allocate)(size_t size);
    void (*release)(void *block);
};

static struct names library_open(void)
{
    struct names names;
    names.handle = dlopen(library_path, RTLD_NOW | RTLD_LOCAL);
    CHECK(names.handle != NULL, "%s", dlerror());
    *(void **)&names.allocate = dlsym(names.handle, "calm_malloc");
    *(void **)&names.release = dlsym(names.handle, "calm_free");
    CHECK(names.allocate != NULL && names.release != NULL, "%s has no calm_ names", library_path);
    return names;
}

static void use(const struct names *names)
{
    void *blocks[1000];
    for (size_t i = 0; i < 1000; i++) {
        blocks[i] = names->allocate(1 + i * 100);
        CHECK(blocks[i] != NULL, "no memory");
        block_sign(blocks[i], 1 + i * 100);
    }
    for (size_t i = 0; i < 1000; i++) {
        CHECK(block_is_signed(blocks[i], 1 + i * 100), "a block was overwritten");
        names->release(blocks[i]);
    }
}

static void *open_use_close(void *argument)
{
    (void)argument;
    struct names names = library_open();
    use(&names);
    CHECK(dlclose(names.handle) == 0, "%s", dlerror());
    return malloc(100);
}

static void *use_only(void *argument)
{
    use(argument);
    return NULL;
}

int main(int argc, char **argv)
{
    CHECK(argc == 2, "usage: dlopen_library LIBRARY");
    library_path = argv[1];
    check_time_limit(60);
    Dl_info info;
    CHECK(dladdr(dlsym(RTLD_DEFAULT, "malloc"), &info) != 0 &&
              strstr(info.dli_fname, "calmalloc") == NULL,
          "the program itself must run on another allocator");
    pthread_t thread;
    void *block;
    for (int i = 0; i < 20; i++) {
        CHECK(pthread_create(&thread, NULL, open_use_close, NULL) == 0, "no thread");
        pthread_join(thread, &block);
        free(block);
        free(open_use_close(NULL));
    }
    struct names names = library_open();
    use(&names);
    for (int i = 0; i < 50; i++) {
        CHECK(pthread_create(&thread, NULL, use_only, &names) == 0, "no thread");
        pthread_join(thread, NULL);
    }
    CHECK(dlclose(names.handle) == 0, "%s", dlerror());
    return 0;
}
