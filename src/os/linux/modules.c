/*
 * modules.c: executable mappings from /proc/self/maps, build ids from the notes in memory.
 *
 * The program headers lie in the mapping of a file's first page, which precedes its executable
 * mappings. They say where the notes are, and the file's load bias. Both are copied by
 * process_vm_readv, or through /proc/self/mem if a filter refuses that, so that a library that
 * another thread unmaps loses only its build id.
 *
 * Owner: the caller; each call maps separate buffers for its duration, since signal stacks are
 * small.
 */
#define _GNU_SOURCE

#include "os/modules.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include "base/bits.h"
#include "os/linux/auxiliary.h"
#include "os/linux/lines.h"
#include "os/linux/syscall.h"

enum {
    HEADERS_MAX = 64, /* most program headers that are read */
    NOTES_MAX = 64,   /* most notes of a program header     */
    LINE_BYTES = PATH_MAX + 128,
};

struct reader {
    struct lines lines;
    char line[LINE_BYTES];
    Elf64_Phdr headers[HEADERS_MAX];
    unsigned char build_id[OS_BUILD_ID_MAX];
};

/* A parsed line of /proc/self/maps. */
struct line {
    uintptr_t start, end;
    uint64_t offset, device, inode;
    bool is_executable;
    char *path;
};

/* The last mapping of a file's first page. */
struct image {
    uintptr_t base;
    uint64_t device, inode;
};

/* Parses the number at *words; moves behind it and the next character. */
static uint64_t parse_number(char **words, unsigned base)
{
    uint64_t value = lines_number(words, base);
    *words += **words != '\0';
    return value;
}

/* start-end rwxp offset major:minor inode      path */
static struct line parse_line(char *words)
{
    struct line line = {.start = parse_number(&words, 16)};
    line.end = parse_number(&words, 16);
    if (strlen(words) < 5)
        return line;
    line.is_executable = words[2] == 'x';
    words += 5;
    line.offset = parse_number(&words, 16);
    line.device = parse_number(&words, 16) << 32;
    line.device |= parse_number(&words, 16);
    line.inode = parse_number(&words, 10);
    while (*words == ' ')
        words++;
    line.path = words;
    return line;
}

static void trim_deleted(char *path)
{
    static const char mark[] = " (deleted)";
    size_t length = strlen(path);
    if (length > sizeof mark && strcmp(path + length - (sizeof mark - 1), mark) == 0)
        path[length - (sizeof mark - 1)] = '\0';
}

static bool copy_by_file(uintptr_t from, void *to, size_t size)
{
    long fd = system_call(SYS_openat, AT_FDCWD, (long)"/proc/self/mem", O_RDONLY | O_CLOEXEC, 0, 0,
                          0);
    if (fd < 0)
        return false;
    long copied = system_call(SYS_pread64, fd, (long)to, (long)size, (long)from, 0, 0);
    system_call(SYS_close, fd, 0, 0, 0, 0, 0);
    return copied == (long)size;
}

/* Copies memory that may be unmapped. */
static bool copy_memory(uintptr_t from, void *to, size_t size)
{
    struct iovec here = {to, size};
    struct iovec there = {(void *)from, size};
    long process = system_call(SYS_getpid, 0, 0, 0, 0, 0, 0);
    long copied = system_call(SYS_process_vm_readv, process, (long)&here, 1, (long)&there, 1, 0);
    return copied == (long)size || copy_by_file(from, to, size);
}

/* Reads the program headers of the file whose first page is at `base`. Returns how many; 0:
 * unavailable. */
static size_t read_headers(struct reader *reader, uintptr_t base)
{
    Elf64_Ehdr file;
    if (!copy_memory(base, &file, sizeof file) || memcmp(file.e_ident, ELFMAG, SELFMAG) != 0 ||
        file.e_ident[EI_CLASS] != ELFCLASS64 || file.e_phentsize != sizeof(Elf64_Phdr))
        return 0;
    size_t count = size_min(file.e_phnum, HEADERS_MAX);
    bool is_read = copy_memory(base + file.e_phoff, reader->headers, count * sizeof(Elf64_Phdr));
    return is_read ? count : 0;
}

/* Finds the build id among the notes of one program header. Returns its length, or 0. Alignment 4
 * also finds notes aligned to 8, by their sizes; and mold says 8 for all if one needs 8. */
static size_t read_notes(struct reader *reader, uintptr_t at, size_t bytes)
{
    enum { ALIGN = 4 };
    uintptr_t end = at + bytes;
    for (unsigned i = 0; i < NOTES_MAX && at + sizeof(Elf64_Nhdr) <= end; i++) {
        Elf64_Nhdr note;
        char name[sizeof ELF_NOTE_GNU];
        if (!copy_memory(at, &note, sizeof note))
            return 0;
        uintptr_t words = at + align_up(sizeof note + note.n_namesz, ALIGN);
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof name &&
            note.n_descsz <= OS_BUILD_ID_MAX && copy_memory(at + sizeof note, name, sizeof name) &&
            memcmp(name, ELF_NOTE_GNU, sizeof name) == 0)
            return copy_memory(words, reader->build_id, note.n_descsz) ? note.n_descsz : 0;
        at = words + align_up(note.n_descsz, ALIGN);
    }
    return 0;
}

/* Fills in the facts that only the file's headers have. */
static void describe(struct reader *reader, uintptr_t base, struct os_module *module)
{
    size_t count = read_headers(reader, base);
    bool is_known = false;
    for (size_t i = 0; i < count && !is_known; i++) {
        const Elf64_Phdr *header = &reader->headers[i];
        is_known = header->p_type == PT_LOAD && (header->p_flags & PF_X) != 0 &&
                   module->offset + (module->end - module->start) > header->p_offset &&
                   module->offset < header->p_offset + header->p_filesz;
        if (is_known)
            module->bias = module->start - (header->p_vaddr - header->p_offset + module->offset);
    }
    for (size_t i = 0; is_known && i < count && module->build_id_bytes == 0; i++) {
        const Elf64_Phdr *header = &reader->headers[i];
        if (header->p_type == PT_NOTE)
            module->build_id_bytes = read_notes(reader, module->bias + header->p_vaddr,
                                                header->p_memsz);
    }
    if (module->build_id_bytes > 0)
        module->build_id = reader->build_id;
}

static int visit_all(struct reader *reader, void (*visit)(const struct os_module *, void *),
                     void *context)
{
    struct image image = {0};
    uintptr_t entry = auxiliary_value(AT_ENTRY);
    int result;
    while ((result = lines_read(&reader->lines, reader->line, LINE_BYTES)) > 0) {
        struct line line = parse_line(reader->line);
        if (line.inode == 0 || line.path == NULL || line.path[0] != '/')
            continue;
        if (line.offset == 0)
            image = (struct image){line.start, line.device, line.inode};
        if (!line.is_executable)
            continue;
        trim_deleted(line.path);
        struct os_module module = {
            .start = line.start,
            .end = line.end,
            .offset = line.offset,
            .bias = line.start - line.offset,
            .path = line.path,
            .is_program = line.start <= entry && entry < line.end,
        };
        if (image.base != 0 && image.device == line.device && image.inode == line.inode)
            describe(reader, image.base, &module);
        visit(&module, context);
    }
    return result;
}

/* Maps the buffers and opens the list; NULL and *error if either fails. */
static struct reader *reader_begin(int *error)
{
    long at = system_call(SYS_mmap, 0, sizeof(struct reader), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at < 0 && at >= -4095) {
        *error = (int)at;
        return NULL;
    }
    struct reader *reader = (struct reader *)at;
    *error = lines_open(&reader->lines, "/proc/self/maps");
    if (*error != 0) {
        system_call(SYS_munmap, at, sizeof(struct reader), 0, 0, 0, 0);
        return NULL;
    }
    return reader;
}

static void reader_end(struct reader *reader)
{
    lines_close(&reader->lines);
    system_call(SYS_munmap, (long)reader, sizeof *reader, 0, 0, 0, 0);
}

int os_modules(void (*visit)(const struct os_module *, void *), void *context)
{
    int result = 0;
    struct reader *reader = reader_begin(&result);
    if (reader == NULL)
        return result;
    result = visit_all(reader, visit, context);
    reader_end(reader);
    return result;
}

int os_maps(void (*take)(const char *, size_t, void *), void *context)
{
    int result = 0;
    struct reader *reader = reader_begin(&result);
    if (reader == NULL)
        return result;
    long length;
    while ((length = lines_refill(&reader->lines)) > 0)
        take(reader->lines.buffer, (size_t)length, context);
    result = (int)length;
    reader_end(reader);
    return result;
}
