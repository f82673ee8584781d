/*
 * clock.c: finds the kernel's clock function in the code page that it maps into every process
 * (vdso(7)), which reads most clocks without a system call. Falls back to the system call.
 *
 * Owner: any thread; all threads find the same function.
 */
#define _GNU_SOURCE

#include "os/linux/clock.h"

#include <elf.h>

#include "base/atomic.h"
#include "base/attr.h"
#include "base/text.h"
#include "os/linux/auxiliary.h"
#include "os/linux/syscall.h"

#if defined(__x86_64__)
#define CLOCK_NAME "__vdso_clock_gettime"
#else
#define CLOCK_NAME "__kernel_clock_gettime"
#endif

typedef int (*clock_function)(clockid_t clock, struct timespec *out);

enum { SYMBOLS_MAX = 64 }; /* more than there are */

static int (*_Atomic found)(clockid_t clock, struct timespec *out);

static int ask_kernel(clockid_t clock, struct timespec *out)
{
    return (int)system_call(SYS_clock_gettime, clock, (long)out, 0, 0, 0, 0);
}

/* The image's address, the difference from its headers' addresses, and its dynamic table. */
struct image {
    const char *start;
    intptr_t bias;
    const Elf64_Dyn *dynamic;
};

static struct image image_at(const char *start)
{
    struct image image = {.start = start};
    const Elf64_Ehdr *file = (const Elf64_Ehdr *)(const void *)start;
    const Elf64_Phdr *headers = (const Elf64_Phdr *)(const void *)(start + file->e_phoff);
    for (unsigned i = 0; i < file->e_phnum; i++) {
        if (headers[i].p_type == PT_LOAD)
            image.bias = (intptr_t)(start + headers[i].p_offset - headers[i].p_vaddr);
        if (headers[i].p_type == PT_DYNAMIC)
            image.dynamic = (const Elf64_Dyn *)(const void *)(start + headers[i].p_offset);
    }
    return image;
}

static const void *table_of(const struct image *image, Elf64_Sxword tag)
{
    for (const Elf64_Dyn *entry = image->dynamic; entry->d_tag != DT_NULL; entry++)
        if (entry->d_tag == tag)
            return (const void *)(image->bias + (intptr_t)entry->d_un.d_ptr);
    return NULL;
}

/* In every kernel's image, the symbols end where their names begin; reads a name only while that
 * holds. */
static clock_function find(const char *start)
{
    struct image image = image_at(start);
    if (image.dynamic == NULL)
        return ask_kernel;
    const Elf64_Sym *symbols = (const Elf64_Sym *)table_of(&image, DT_SYMTAB);
    const char *names = (const char *)table_of(&image, DT_STRTAB);
    if (symbols == NULL || names == NULL)
        return ask_kernel;
    for (unsigned i = 0; i < SYMBOLS_MAX && (const char *)(symbols + i + 1) <= names; i++) {
        bool is_function = ELF64_ST_TYPE(symbols[i].st_info) == STT_FUNC ||
                           ELF64_ST_TYPE(symbols[i].st_info) == STT_NOTYPE;
        if (symbols[i].st_shndx != SHN_UNDEF && is_function &&
            text_is_same(names + symbols[i].st_name, CLOCK_NAME))
            return (clock_function)(image.bias + (intptr_t)symbols[i].st_value);
    }
    return ask_kernel;
}

struct timespec clock_read(clockid_t clock)
{
    struct timespec now = {0};
    clock_function function = load(&found, RELAXED);
    if (unlikely(function == NULL)) {
        const char *image = (const char *)auxiliary_value(AT_SYSINFO_EHDR);
        function = image != NULL ? find(image) : ask_kernel;
        store(&found, function, RELAXED);
    }
    function(clock, &now);
    return now;
}
