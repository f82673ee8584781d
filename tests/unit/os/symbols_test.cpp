/*
 * symbols_test.cpp: os/linux/symbols.c against the dynamic linker's own answers.
 */
#include <gtest/gtest.h>

#include <dlfcn.h>
#include <sys/mman.h>

#include <string>

extern "C" {
#include "os/modules.h"
#include "os/symbols.h"
}

/* Seen to fail with a hash that starts elsewhere, and without the module's bias. */
TEST(Symbols, AreWhereTheDynamicLinkerSaysTheyAre)
{
    void *inside = dlsym(RTLD_DEFAULT, "strtod");
    Dl_info info;
    ASSERT_NE(dladdr(inside, &info), 0);
    void *library = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    ASSERT_NE(library, nullptr);
    unsigned found = 0;
    for (const char *name : {"strtod", "environ", "getenv", "qsort", "fopen",
                             "program_invocation_name", "in6addr_any", "stpcpy"}) {
        struct os_symbol symbol;
        void *theirs = dlsym(library, name);
        if (theirs == nullptr || dladdr(theirs, &info) == 0)
            continue;
        Dl_info own;
        if (dladdr(inside, &own) == 0 || own.dli_fbase != info.dli_fbase)
            continue; /* copied into the program, or another library's */
        ASSERT_TRUE(os_symbol_find(inside, name, &symbol)) << name;
        found += symbol.address == theirs && symbol.bytes > 0;
    }
    EXPECT_GE(found, 4u); /* a function chosen at load time has its chooser's address here */
}

TEST(Symbols, NoneIsFoundThatIsNotThere)
{
    struct os_symbol symbol;
    void *inside = dlsym(RTLD_DEFAULT, "strtod");
    EXPECT_FALSE(os_symbol_find(inside, "no_such_symbol", &symbol));
    EXPECT_FALSE(os_symbol_find(inside, "", &symbol));
    EXPECT_FALSE(os_symbol_find((const void *)16, "strtod", &symbol));
    int local = 0;
    EXPECT_FALSE(os_symbol_find(&local, "strtod", &symbol));
}

/* Seen to fail with a plain read. */
TEST(Symbols, MemoryThatIsNotThereCannotBeRead)
{
    char *pages = (char *)mmap(nullptr, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(pages, MAP_FAILED);
    mprotect(pages + 4096, 4096, PROT_NONE);
    EXPECT_TRUE(os_is_readable((uintptr_t)pages));
    EXPECT_FALSE(os_is_readable((uintptr_t)pages + 4096));
    munmap(pages, 8192);
    EXPECT_FALSE(os_is_readable((uintptr_t)pages));
    EXPECT_FALSE(os_is_readable(8));
    EXPECT_FALSE(os_is_readable((uintptr_t)1 << 62));
}

/* Against the kernel's list. Seen to fail with the segment's bytes not rounded to pages. */
TEST(Symbols, TheModuleOfCodeIsTheKernelsMapping)
{
    struct found {
        uintptr_t code, start, end;
        uint64_t offset;
        uintptr_t bias;
        std::string path;
    } theirs = {(uintptr_t)dlsym(RTLD_DEFAULT, "strtod"), 0, 0, 0, 0, ""};
    ASSERT_EQ(os_modules(
                  [](const struct os_module *module, void *context) {
                      auto *out = (struct found *)context;
                      if (module->start <= out->code && out->code < module->end)
                          *out = {out->code,      module->start, module->end,
                                  module->offset, module->bias,  module->path};
                  },
                  &theirs),
              0);
    struct os_module module;
    ASSERT_TRUE(os_module_find(theirs.code, &module));
    EXPECT_EQ(module.start, theirs.start);
    EXPECT_EQ(module.end, theirs.end);
    EXPECT_EQ(module.offset, theirs.offset);
    EXPECT_EQ(module.bias, theirs.bias);
    EXPECT_FALSE(os_module_find(16, &module));
    EXPECT_FALSE(os_module_find((uintptr_t)&theirs, &module));
}
