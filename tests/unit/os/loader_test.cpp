/*
 * loader_test.cpp: os/loader.h on this process and on a library that comes and goes.
 */
#include <gtest/gtest.h>

#include <dlfcn.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/mman.h>

extern "C" {
#include "os/loader.h"
}

extern "C" int _dl_find_object(void *, struct dl_find_object *) __attribute__((weak));

static const void *address_of(void *pointer, size_t offset = 0)
{
    return static_cast<char *>(pointer) + offset;
}

TEST(Loader, CodeIsAModulesOrTheLinkersAndOtherMemoryIsNobodys)
{
    EXPECT_EQ(os_loader_find(reinterpret_cast<void *>(&address_of)), LOADER_MODULE);
    EXPECT_EQ(os_loader_find(reinterpret_cast<void *>(&mmap)), LOADER_MODULE);
    if (_dl_find_object == nullptr)
        GTEST_SKIP() << "this C library cannot say";
    auto linker = reinterpret_cast<void *>(getauxval(AT_BASE));
    ASSERT_NE(linker, nullptr);
    EXPECT_EQ(os_loader_find(address_of(linker, 64)), LOADER_ITSELF);
    void *plain = mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_EQ(os_loader_find(plain), LOADER_NONE);
    munmap(plain, 4096);
    EXPECT_EQ(os_loader_find(nullptr), LOADER_NONE);
}

TEST(Loader, ALibraryCountsFromItsLoadingToItsUnloading)
{
    if (_dl_find_object == nullptr)
        GTEST_SKIP() << "this C library cannot say";
    void *library = dlopen("libutil.so.1", RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    struct link_map *map = nullptr;
    ASSERT_EQ(dlinfo(library, RTLD_DI_LINKMAP, &map), 0);
    const void *inside = reinterpret_cast<const void *>(map->l_ld);
    EXPECT_EQ(os_loader_find(inside), LOADER_MODULE);
    ASSERT_EQ(dlclose(library), 0);
    EXPECT_EQ(os_loader_find(inside), LOADER_NONE);
}
