/*
 * symbols.c: reads a module's dynamic symbols where the dynamic linker has mapped them.
 *
 * The linker's record of the module leads to its dynamic section, and that section to the symbols,
 * their names and GNU's hash table. The linker wrote absolute addresses there when it loaded the
 * module.
 */
#include "os/symbols.h"

#include <elf.h>
#include <string.h>

#include "os/linux/auxiliary.h"
#include "os/linux/found_object.h"
#include "os/linux/stack_parts.h"
#include "os/modules.h"

enum { HEADERS_BYTES_MAX = 4096, DYNAMIC_MAX = 256, CHAIN_MAX = 1 << 16, WORD_BITS = 64 };

struct symbol_table {
    uintptr_t bias;
    const Elf64_Sym *symbols;
    const char *names;
    size_t names_bytes;
    const uint32_t *hash;
};

/* GNU's hash table: a filter, buckets, and for each bucket a chain of hashes. */
struct hash_head {
    uint32_t bucket_count, first_symbol, filter_words, filter_shift;
};

static bool read_dynamic(const Elf64_Dyn *dynamic, struct symbol_table *out)
{
    for (unsigned i = 0; i < DYNAMIC_MAX && dynamic[i].d_tag != DT_NULL; i++) {
        uintptr_t value = dynamic[i].d_un.d_ptr;
        switch (dynamic[i].d_tag) {
        case DT_SYMTAB: out->symbols = (const Elf64_Sym *)value; break;
        case DT_STRTAB: out->names = (const char *)value; break;
        case DT_STRSZ: out->names_bytes = value; break;
        case DT_GNU_HASH: out->hash = (const uint32_t *)value; break;
        default: break;
        }
    }
    /* If the linker does not relocate the section, the addresses are the file's: reject them. */
    return out->symbols != NULL && out->names != NULL && out->hash != NULL &&
           (uintptr_t)out->symbols >= out->bias && stack_memory_is_readable((uintptr_t)out->hash);
}

static uint32_t hash_of(const char *name)
{
    uint32_t hash = 5381;
    for (; *name != '\0'; name++)
        hash = hash * 33 + (unsigned char)*name;
    return hash;
}

static bool is_it(const struct symbol_table *table, uint32_t index, const char *name)
{
    const Elf64_Sym *symbol = &table->symbols[index];
    return symbol->st_shndx != SHN_UNDEF && symbol->st_name < table->names_bytes &&
           strcmp(table->names + symbol->st_name, name) == 0;
}

static const Elf64_Sym *look_up(const struct symbol_table *table, const char *name)
{
    const struct hash_head *head = (const struct hash_head *)table->hash;
    const uint64_t *filter = (const uint64_t *)(const void *)(head + 1);
    const uint32_t *buckets = (const uint32_t *)(filter + head->filter_words);
    const uint32_t *chains = buckets + head->bucket_count;
    uint32_t hash = hash_of(name);
    if (head->bucket_count == 0 || head->filter_words == 0)
        return NULL;
    uint64_t word = filter[hash / WORD_BITS % head->filter_words];
    if ((word >> hash % WORD_BITS & word >> (hash >> head->filter_shift) % WORD_BITS & 1) == 0)
        return NULL;
    uint32_t index = buckets[hash % head->bucket_count];
    for (unsigned i = 0; index >= head->first_symbol && i < CHAIN_MAX; i++, index++) {
        uint32_t chained = chains[index - head->first_symbol];
        if ((chained | 1) == (hash | 1) && is_it(table, index, name))
            return &table->symbols[index];
        if ((chained & 1) != 0)
            break;
    }
    return NULL;
}

bool os_symbol_find(const void *code, const char *name, struct os_symbol *out)
{
    struct found_object found;
    if (find_object == NULL || find_object((void *)(uintptr_t)code, &found) != 0 ||
        found.link_map->l_ld == NULL)
        return false;
    struct symbol_table table = {.bias = found.link_map->l_addr};
    if (!read_dynamic(found.link_map->l_ld, &table))
        return false;
    const Elf64_Sym *symbol = look_up(&table, name);
    if (symbol == NULL)
        return false;
    *out = (struct os_symbol){(const void *)(table.bias + symbol->st_value), symbol->st_size};
    return true;
}

/* By whole pages, as the dynamic linker maps a segment. */
static bool describe(const Elf64_Phdr *header, uintptr_t bias, uintptr_t code,
                     struct os_module *out)
{
    uintptr_t page = auxiliary_value(AT_PAGESZ) - 1, start = bias + header->p_vaddr;
    if (header->p_type != PT_LOAD || (header->p_flags & PF_X) == 0 || code < start ||
        code >= start + header->p_filesz)
        return false;
    out->start = start & ~page;
    out->end = (start + header->p_filesz + page) & ~page;
    out->offset = header->p_offset & ~page;
    out->bias = bias;
    return true;
}

bool os_module_find(uintptr_t code, struct os_module *out)
{
    struct found_object found;
    *out = (struct os_module){0};
    if (find_object == NULL || find_object((void *)code, &found) != 0 ||
        found.link_map->l_name == NULL || found.link_map->l_name[0] == '\0')
        return false;
    const Elf64_Ehdr *file = (const Elf64_Ehdr *)found.map_start;
    if (!stack_memory_is_readable((uintptr_t)file) || memcmp(file->e_ident, ELFMAG, SELFMAG) != 0 ||
        file->e_phentsize != sizeof(Elf64_Phdr) ||
        file->e_phoff + file->e_phnum * sizeof(Elf64_Phdr) > HEADERS_BYTES_MAX)
        return false;
    const Elf64_Phdr *headers = (const Elf64_Phdr *)((uintptr_t)file + file->e_phoff);
    out->path = found.link_map->l_name;
    for (size_t i = 0; i < file->e_phnum; i++)
        if (describe(&headers[i], found.link_map->l_addr, code, out))
            return true;
    return false;
}

bool os_is_readable(uintptr_t address)
{
    return stack_memory_is_readable(address);
}
