/*
 * proof: shows that a preloaded library is the allocator of this process, and that it is a sound
 * one.
 *
 *   proof names          for each standard name the file it resolves to, as one line of JSON
 *   proof LIBRARY|-      a path that the names must lie in; - for the C library itself
 *
 * Linked with the C++ library, so that operator new resolves somewhere in any case. The second form
 * ends with 0 and one line of JSON, or with 1 and one sentence. That calls resolve into a library
 * does not show that it does the work, as it may pass them on: so the C library's own books must
 * not move while many blocks are allocated. Then contents, alignments, sizes, zeroes and refusals
 * are checked, and blocks that other threads free. Says nothing about speed, nor about misuse.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 20000, THREADS = 4, SLOTS = 1024, ROUNDS = 10000, ALIGN_MAX = 1 << 18 };

static unsigned checks;
static char faults[512];

/* The first thread that finds a fault says so in one piece; others that find one wait for the end.
 */
static void fail(const char *format, ...)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    while (atomic_flag_test_and_set(&said))
        pause();
    char text[512] = "proof: ";
    size_t start = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + start, sizeof text - start, format, arguments);
    va_end(arguments);
    dprintf(STDERR_FILENO, "%s\n", text);
    _exit(1);
}

#define CHECK(condition, ...)                                                                      \
    do {                                                                                           \
        checks++;                                                                                  \
        if (!(condition))                                                                          \
            fail(__VA_ARGS__);                                                                     \
    } while (0)

/* For what only some programs meet: the library can be measured all the same, and the table says
 * it. */
static void expect(bool holds, const char *format, ...)
{
    static char said[128];
    checks++;
    if (holds)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(said, sizeof said, format, arguments);
    va_end(arguments);
    size_t used = strlen(faults);
    snprintf(faults + used, sizeof faults - used, "%s%s", used == 0 ? "" : "; ", said);
}

static const char *const names[] = {
    "malloc",
    "calloc",
    "realloc",
    "free",
    "posix_memalign",
    "aligned_alloc",
    "memalign",
    "malloc_usable_size",
    "reallocarray",
    "valloc",
    "pvalloc",
    "free_sized",
    "free_aligned_sized",
    "_Znwm",
    "_Znam",
    "_ZdlPv",
    "_ZdaPv",
    "_ZdlPvm",
    "_ZnwmSt11align_val_t",
    "_ZnwmRKSt9nothrow_t",
    "_ZdlPvSt11align_val_t",
};
enum { NAMES = sizeof names / sizeof *names, NAMES_NEEDED = 8 };

/* The file that calls of `name` reach, or an empty text. */
static const char *owner(const char *name)
{
    Dl_info where = {0};
    void *address = dlsym(RTLD_DEFAULT, name);
    if (address != NULL)
        dladdr(address, &where);
    return where.dli_fname == NULL ? "" : where.dli_fname;
}

static void print_owners(void)
{
    for (unsigned i = 0; i < NAMES; i++)
        printf("%s\"%s\": \"%s\"", i == 0 ? "{" : ", ", names[i], owner(names[i]));
    puts("}");
}

static void check_owner(const char *library)
{
    char wanted[PATH_MAX], found[PATH_MAX];
    CHECK(realpath(library, wanted) != NULL, "%s does not exist", library);
    for (unsigned i = 0; i < NAMES_NEEDED; i++)
        CHECK(realpath(owner(names[i]), found) != NULL && strcmp(found, wanted) == 0,
              "%s comes from %s", names[i], owner(names[i]));
}

/* Bytes that the C library's own allocator has handed out. */
static size_t c_library_bytes(void)
{
    void *handle = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    CHECK(handle != NULL, "the C library's file was not found");
    struct mallinfo2 (*books)(void) = (struct mallinfo2(*)(void))dlsym(handle, "mallinfo2");
    CHECK(books != NULL, "the C library has no mallinfo2");
    struct mallinfo2 now = books();
    return now.uordblks + now.hblkhd;
}

static size_t growth_of_c_library(void)
{
    static char *blocks[BLOCKS];
    size_t before = c_library_bytes();
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(100);
        CHECK(blocks[i] != NULL, "malloc(100) is NULL");
        memset(blocks[i], (int)i, 100);
    }
    size_t after = c_library_bytes();
    for (unsigned i = 0; i < BLOCKS; i++) {
        for (unsigned byte = 0; byte < 100; byte++)
            if (blocks[i][byte] != (char)i)
                fail("block %u of 100 bytes was changed while it was live", i);
        free(blocks[i]);
    }
    checks++;
    return after > before ? after - before : 0;
}

static void check_sizes(void)
{
    for (size_t bytes = 1; bytes < (size_t)2 << 20; bytes += bytes / 3 + 1) {
        unsigned char *block = malloc(bytes);
        CHECK(block != NULL, "malloc(%zu) is NULL", bytes);
        size_t align = bytes >= 16 ? 16 : bytes >= 8 ? 8 : 1;
        CHECK((uintptr_t)block % align == 0, "malloc(%zu) is not aligned to %zu", bytes, align);
        size_t usable = malloc_usable_size(block);
        CHECK(usable >= bytes, "malloc_usable_size of %zu bytes is %zu", bytes, usable);
        memset(block, 0xa5, usable);
        free(block);
        block = calloc(1, bytes);
        CHECK(block != NULL, "calloc(1, %zu) is NULL", bytes);
        for (size_t i = 0; i < bytes; i++)
            if (block[i] != 0)
                fail("calloc(1, %zu) is not zero at %zu", bytes, i);
        checks++;
        free(block);
    }
    free(malloc(0));
    free(NULL);
}

static void check_realloc(void)
{
    unsigned char *block = realloc(NULL, 10);
    CHECK(block != NULL, "realloc(NULL, 10) is NULL");
    memset(block, 7, 10);
    size_t had = 10;
    static const size_t sizes[] = {11, 40, 1000, 999, 5000, 300000, 3000000, 200000, 60, 9};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        block = realloc(block, sizes[i]);
        CHECK(block != NULL, "realloc to %zu bytes is NULL", sizes[i]);
        size_t kept = had < sizes[i] ? had : sizes[i];
        for (size_t byte = 0; byte < kept; byte++)
            if (block[byte] != 7)
                fail("realloc from %zu to %zu bytes lost byte %zu", had, sizes[i], byte);
        checks++;
        memset(block, 7, sizes[i]);
        had = sizes[i];
    }
    free(block);
}

/* The largest alignment for which all three calls give blocks: at least a page's. */
static size_t check_alignments(void)
{
    static const char *const calls[] = {"aligned_alloc", "memalign", "posix_memalign"};
    unsigned misaligned = 0;
    for (size_t align = sizeof(void *); align <= ALIGN_MAX; align *= 2) {
        for (size_t bytes = align / 2 + 1; bytes < 4 * align; bytes += align) {
            size_t rounded = (bytes + align - 1) / align * align;
            void *blocks[3] = {aligned_alloc(align, rounded), memalign(align, bytes), NULL};
            if (posix_memalign(&blocks[2], align, bytes) != 0)
                blocks[2] = NULL;
            bool is_complete = blocks[0] != NULL && blocks[1] != NULL && blocks[2] != NULL;
            CHECK(is_complete || align > 4096, "%zu bytes aligned to %zu are NULL", bytes, align);
            for (unsigned i = 0; i < 3 && is_complete; i++) {
                if ((uintptr_t)blocks[i] % align != 0 && misaligned++ == 0)
                    expect(false, "%s(%zu, %zu) is at %p", calls[i], align,
                           i == 0 ? rounded : bytes, blocks[i]);
                CHECK(malloc_usable_size(blocks[i]) >= bytes, "%zu bytes aligned to %zu are fewer",
                      bytes, align);
                memset(blocks[i], (int)i, bytes);
            }
            if (is_complete)
                blocks[0] = realloc(blocks[0], 2 * rounded);
            CHECK(!is_complete || (blocks[0] != NULL && *(char *)blocks[0] == 0),
                  "realloc of a block aligned to %zu", align);
            for (unsigned i = 0; i < 3; i++)
                free(blocks[i]);
            if (!is_complete)
                return align / 2;
        }
    }
    return ALIGN_MAX;
}

static void check_refusals(void)
{
    volatile size_t huge = (size_t)PTRDIFF_MAX - 4096, half = SIZE_MAX / 2;
    void *block = NULL;
    expect(malloc(huge) == NULL, "malloc of all addresses is not NULL");
    expect(calloc(half, 3) == NULL, "calloc whose product overflows is not NULL");
    expect(posix_memalign(&block, 3, 100) == EINVAL, "posix_memalign(3, 100) is not refused");
}

/*
 * A slot holds a block and, above the bits of an address, how many bytes it has. The block is
 * filled with a byte made of that; who takes it out checks it and frees it, whoever put it there.
 */
enum { ADDRESS_BITS = 47 };
static atomic_uintptr_t slots[SLOTS];

static int fill_of(size_t bytes)
{
    return (int)((bytes ^ bytes >> 8) & 0xff);
}

static uintptr_t filled(size_t bytes)
{
    char *block = malloc(bytes);
    if (block == NULL)
        fail("malloc(%zu) is NULL in a thread", bytes);
    memset(block, fill_of(bytes), bytes);
    return bytes << ADDRESS_BITS | (uintptr_t)block;
}

static void check_and_free(uintptr_t slot)
{
    size_t bytes = slot >> ADDRESS_BITS;
    unsigned char *block = (unsigned char *)(slot & (((uintptr_t)1 << ADDRESS_BITS) - 1));
    for (size_t i = 0; i < bytes; i++)
        if (block[i] != fill_of(bytes))
            fail("a block of %zu bytes was changed while it was live, with threads", bytes);
    free(block);
}

static void *exchange(void *argument)
{
    uint32_t state = 2654435761u * (uint32_t)((uintptr_t)argument + 1);
    for (unsigned round = 0; round < ROUNDS; round++) {
        state = state * 1664525u + 1013904223u;
        size_t bytes = 1 + (state >> 8) % (round % 64 == 0 ? 100000 : 500);
        check_and_free(atomic_exchange(&slots[(state >> 20) % SLOTS], filled(bytes)));
    }
    return NULL;
}

static void check_threads(void)
{
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, exchange, (void *)i) == 0, "pthread_create");
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < SLOTS; i++)
        check_and_free(atomic_exchange(&slots[i], 0));
    checks++;
}

static void check_fork(void)
{
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0, "fork");
    if (child == 0) {
        check_sizes();
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && status == 0, "a forked child did not end well");
}

/* What Google's tcmalloc says of itself; -1 where the library is another one. */
static long long said(const char *property)
{
    bool (*ask)(const char *, size_t, size_t *) = (bool (*)(const char *, size_t, size_t *))dlsym(
        RTLD_DEFAULT, "MallocExtension_Internal_GetNumericProperty");
    size_t value = 0;
    return ask != NULL && ask(property, strlen(property), &value) ? (long long)value : -1;
}

/* The library's own word for its version, where there is one to ask; empty where not. */
static const char *version(void)
{
    static char text[64];
    int (*mimalloc)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "mi_version");
    int (*jemalloc)(const char *, void *, size_t *, void *, size_t) = (int (*)(
        const char *, void *, size_t *, void *, size_t))dlsym(RTLD_DEFAULT, "mallctl");
    const char *(*gperftools)(int *, int *, const char **) =
        (const char *(*)(int *, int *, const char **))dlsym(RTLD_DEFAULT, "tc_version");
    const char *name = text;
    size_t bytes = sizeof name;
    if (mimalloc != NULL)
        snprintf(text, sizeof text, "%d", mimalloc());
    else if (jemalloc != NULL && jemalloc("version", &name, &bytes, NULL, 0) == 0)
        return name;
    else if (gperftools != NULL)
        return gperftools(NULL, NULL, NULL);
    return text;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fputs("usage: proof names|LIBRARY|-\n", stderr);
        return 2;
    }
    if (strcmp(argv[1], "names") == 0) {
        print_owners();
        return 0;
    }
    bool is_c_library = strcmp(argv[1], "-") == 0;
    if (!is_c_library)
        check_owner(argv[1]);
    size_t growth = growth_of_c_library();
    bool is_served_by_it = growth >= (size_t)BLOCKS * 100;
    CHECK(is_c_library || growth < (size_t)BLOCKS,
          "the C library served %zu of %u bytes, so the library passes calls on", growth,
          BLOCKS * 100);
    CHECK(!is_c_library || is_served_by_it, "the C library's books moved by %zu bytes only",
          growth);
    check_sizes();
    check_realloc();
    size_t align_max = check_alignments();
    check_refusals();
    check_threads();
    check_fork();
    printf("{\"version\": \"%s\", \"checks\": %u, \"c_library_bytes\": %zu, \"align_max\": %zu, "
           "\"faults\": \"%s\", "
           "\"per_cpu_active\": %lld, \"per_cpu_bytes\": %lld}\n",
           version(), checks, growth, align_max, faults, said("tcmalloc.per_cpu_caches_active"),
           said("tcmalloc.cpu_free"));
    return 0;
}
