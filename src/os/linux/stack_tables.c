/*
 * stack_tables.c: a module's unwind tables, and a function's entry in them.
 *
 * glibc says without a lock which module contains an address (_dl_find_object, 2.35) and where its
 * .eh_frame_hdr lies: a sorted table of functions, each with its entry in .eh_frame. With other C
 * libraries the walk uses frame pointers; dl_iterate_phdr is unusable, because it locks. Formats:
 * Linux Standard Base Core 5.0, chapter 10.6; DWARF 5, section 6.4.1.
 */
#include "os/linux/stack_parts.h"

#include <elf.h>
#include <stdalign.h>
#include <string.h>

#include "os/linux/auxiliary.h"
#include "os/linux/found_object.h"

enum {
    PAGE = 4096,
    ADDRESS_OMITTED = 0xff,
    ADDRESS_FORMAT = 0x0f,
    ADDRESS_BASE = 0x70,
    ADDRESS_INDIRECT = 0x80,
    BASE_NONE = 0x00,
    BASE_FIELD = 0x10,  /* pcrel */
    BASE_TABLES = 0x30, /* datarel */
    SORTED_4 = 0x3b,    /* datarel, sdata4: what linkers write */
    SORTED_8 = 0x3c,    /* datarel, sdata8: for more than 2 GiB */
    HEADER_VERSION = 1,
    LENGTH_IS_64 = -1,         /* in the first four bytes: eight follow */
    USUAL_HEADER = 0x3b031b01, /* version 1, and the encodings of all linkers */
    USUAL_HEADER_BYTES = 12,
    USUAL_PAIR_BYTES = 8,
    DIGEST_BYTES_MAX = 2048, /* of one record */
};

/* Finds the segment that holds the tables, if these are their module's program headers. */
static bool find_segment(const Elf64_Phdr *headers, size_t count, uintptr_t bias,
                         struct stack_tables *out)
{
    bool is_theirs = false;
    for (size_t i = 0; i < count; i++) {
        uintptr_t start = bias + headers[i].p_vaddr, end = start + headers[i].p_filesz;
        if (headers[i].p_type == PT_GNU_EH_FRAME)
            is_theirs = start == out->header;
        if (headers[i].p_type != PT_LOAD || (headers[i].p_flags & PF_R) == 0 ||
            out->header < start || out->header >= end)
            continue;
        out->start = start;
        out->end = end;
    }
    return is_theirs && out->end != 0;
}

/* A module's program headers follow the start of its first page. glibc's start is that page, or the
 * first code page if the program has gaps, so the kernel's AT_PHDR comes first. */
static bool find_module(uintptr_t start, uintptr_t bias, struct stack_tables *out)
{
    const Elf64_Phdr *program = (const Elf64_Phdr *)auxiliary_value(AT_PHDR);
    if (program != NULL && find_segment(program, auxiliary_value(AT_PHNUM), bias, out))
        return true;
    const Elf64_Ehdr *file = (const Elf64_Ehdr *)start;
    if (!stack_memory_is_readable(start) || memcmp(file->e_ident, ELFMAG, SELFMAG) != 0 ||
        file->e_phentsize != sizeof(Elf64_Phdr) || file->e_phoff > PAGE ||
        file->e_phoff % alignof(Elf64_Phdr) != 0 ||
        file->e_phoff + file->e_phnum * sizeof(Elf64_Phdr) > PAGE)
        return false;
    return find_segment((const Elf64_Phdr *)(start + file->e_phoff), file->e_phnum, bias, out);
}

bool stack_tables_of(uintptr_t pc, struct stack_tables *out)
{
    struct found_object found;
    *out = (struct stack_tables){0};
    if (find_object == NULL || find_object((void *)pc, &found) != 0)
        return false;
    out->header = (uintptr_t)found.eh_frame;
    if (!find_module((uintptr_t)found.map_start, found.link_map->l_addr, out))
        return false;
    out->code = (uintptr_t)found.map_start;
    out->code_end = (uintptr_t)found.map_end;
    return true;
}

static uint64_t number(struct stack_bytes *bytes, uint8_t format)
{
    switch (format) {
    case 0x0: return stack_bytes_unsigned(bytes, 8);
    case 0x1: return stack_bytes_uleb(bytes);
    case 0x2: return stack_bytes_unsigned(bytes, 2);
    case 0x3: return stack_bytes_unsigned(bytes, 4);
    case 0x4: return stack_bytes_unsigned(bytes, 8);
    case 0x9: return (uint64_t)stack_bytes_sleb(bytes);
    case 0xa: return (uint64_t)stack_bytes_signed(bytes, 2);
    case 0xb: return (uint64_t)stack_bytes_signed(bytes, 4);
    case 0xc: return stack_bytes_unsigned(bytes, 8);
    default: bytes->is_bad = true; return 0;
    }
}

uintptr_t stack_bytes_address(struct stack_bytes *bytes, uint8_t encoding,
                              const struct stack_tables *tables)
{
    if (encoding == ADDRESS_OMITTED)
        return 0;
    uintptr_t field = bytes->at;
    uintptr_t value = number(bytes, encoding & ADDRESS_FORMAT);
    switch (encoding & ADDRESS_BASE) {
    case BASE_NONE: break;
    case BASE_FIELD: value += field; break;
    case BASE_TABLES: value += tables->header; break;
    default: bytes->is_bad = true;
    }
    if ((encoding & ADDRESS_INDIRECT) == 0 || bytes->is_bad)
        return value;
    struct stack_bytes word = stack_bytes_from(tables, value, tables->end);
    value = stack_bytes_unsigned(&word, 8);
    bytes->is_bad = word.is_bad;
    return value;
}

/* Returns the bytes of a CIE or FDE after its length. */
static struct stack_bytes record(const struct stack_tables *tables, uintptr_t at)
{
    struct stack_bytes bytes = stack_bytes_from(tables, at, tables->end);
    int64_t words = stack_bytes_signed(&bytes, 4);
    uint64_t length = words == LENGTH_IS_64 ? stack_bytes_unsigned(&bytes, 8) : (uint32_t)words;
    if (length == 0 || length > bytes.end - bytes.at)
        bytes.is_bad = true;
    else
        bytes.end = bytes.at + length;
    return bytes;
}

/* Reads a CIE's augmentation: R is the address encoding; P and L, for exceptions, are skipped; S
 * marks a signal frame; B and G, for signed returns and tagged memory, do not matter here. */
static void read_augmentation(struct stack_bytes *bytes, uintptr_t letters,
                              const struct stack_tables *tables, struct stack_entry *out)
{
    for (uintptr_t at = letters; at < bytes->end && *(const char *)at != '\0'; at++) {
        uint8_t encoding;
        switch (*(const char *)at) {
        case 'R': out->encoding = (uint8_t)stack_bytes_unsigned(bytes, 1); break;
        case 'L': stack_bytes_skip(bytes, 1); break;
        case 'P':
            encoding = (uint8_t)stack_bytes_unsigned(bytes, 1) & (uint8_t)~ADDRESS_INDIRECT;
            stack_bytes_address(bytes, encoding, tables);
            break;
        case 'S': out->is_signal_frame = true; break;
        case 'B':
        case 'G': break;
        default: bytes->is_bad = true;
        }
    }
}

static bool read_common(const struct stack_tables *tables, uintptr_t at, struct stack_entry *out)
{
    struct stack_bytes bytes = record(tables, at);
    uint64_t id = stack_bytes_unsigned(&bytes, 4);
    uint64_t version = stack_bytes_unsigned(&bytes, 1);
    if (bytes.is_bad || id != 0 || (version != 1 && version != 3 && version != 4))
        return false;
    uintptr_t letters = bytes.at;
    while (stack_bytes_unsigned(&bytes, 1) != 0 && !bytes.is_bad)
        continue;
    bool is_plain = bytes.at - letters == 1;
    if (version == 4 && stack_bytes_unsigned(&bytes, 2) != 8) /* address and segment bytes */
        return false;
    out->code_unit = stack_bytes_uleb(&bytes);
    out->data_unit = stack_bytes_sleb(&bytes);
    out->return_register = version == 1 ? stack_bytes_unsigned(&bytes, 1)
                                        : stack_bytes_uleb(&bytes);
    if (!is_plain) {
        if (bytes.is_bad || *(const char *)letters != 'z')
            return false;
        out->has_more = true;
        struct stack_bytes more = bytes;
        uint64_t length = stack_bytes_uleb(&more);
        bytes = more;
        stack_bytes_skip(&bytes, length);
        more.end = bytes.at;
        read_augmentation(&more, letters + 1, tables, out);
        if (more.is_bad)
            return false;
    }
    out->initial = bytes.at;
    out->initial_end = bytes.end;
    return !bytes.is_bad;
}

static bool read_entry(const struct stack_tables *tables, uintptr_t at, uintptr_t pc,
                       struct stack_entry *out)
{
    *out = (struct stack_entry){.encoding = 0};
    struct stack_bytes bytes = record(tables, at);
    uintptr_t field = bytes.at;
    uint64_t back = stack_bytes_unsigned(&bytes, 4);
    if (bytes.is_bad || back == 0 || back > field - tables->start)
        return false;
    if (!read_common(tables, field - back, out))
        return false;
    out->function = stack_bytes_address(&bytes, out->encoding, tables);
    uint64_t size = number(&bytes, out->encoding & ADDRESS_FORMAT);
    if (out->has_more)
        stack_bytes_skip(&bytes, stack_bytes_uleb(&bytes));
    out->program = bytes.at;
    out->program_end = bytes.end;
    return !bytes.is_bad && pc - out->function < size;
}

/* Word `index` of the sorted table, relative to the header. */
ALWAYS_INLINE uintptr_t sorted_word(const struct stack_tables *tables, struct stack_bytes sorted,
                                    uint64_t index, unsigned size)
{
    sorted.at += index * size;
    return tables->header + (uintptr_t)stack_bytes_signed(&sorted, size);
}

bool stack_tables_find(const struct stack_tables *tables, uintptr_t pc, struct stack_entry *out)
{
    struct stack_bytes sorted = stack_bytes_from(tables, tables->header, tables->end);
    uint64_t version = stack_bytes_unsigned(&sorted, 1);
    uint8_t encodings[3];
    for (unsigned i = 0; i < 3; i++)
        encodings[i] = (uint8_t)stack_bytes_unsigned(&sorted, 1);
    stack_bytes_address(&sorted, encodings[0], tables);
    uint64_t count = stack_bytes_address(&sorted, encodings[1], tables);
    if (sorted.is_bad || version != HEADER_VERSION || encodings[1] == ADDRESS_OMITTED ||
        (encodings[2] != SORTED_4 && encodings[2] != SORTED_8))
        return false;
    unsigned size = encodings[2] == SORTED_4 ? 4 : 8;
    if (count == 0 || count > (sorted.end - sorted.at) / (2 * size) ||
        sorted_word(tables, sorted, 0, size) > pc)
        return false;
    uint64_t first = 0, after = count; /* the function is in [first, after) */
    while (after - first > 1) {
        uint64_t middle = first + (after - first) / 2;
        if (sorted_word(tables, sorted, 2 * middle, size) <= pc)
            first = middle;
        else
            after = middle;
    }
    if (!read_entry(tables, sorted_word(tables, sorted, 2 * first + 1, size), pc, out))
        return false;
    out->index = first;
    return true;
}

static uint64_t mixed(uint64_t digest, uint64_t word)
{
    digest = (digest ^ word) * 0x9E3779B97F4A7C15;
    return digest ^ digest >> 32;
}

/* Adds a whole record to the digest. */
static bool digest_record(const struct stack_tables *tables, uintptr_t at, uint64_t *digest)
{
    struct stack_bytes bytes = stack_bytes_from(tables, at, tables->end);
    uint64_t length = stack_bytes_unsigned(&bytes, 4);
    uint64_t room = bytes.end - bytes.at;
    if (bytes.is_bad || length < 4 || length > DIGEST_BYTES_MAX || length > room)
        return false;
    uintptr_t end = bytes.at + length;
    *digest = mixed(*digest, length);
    for (; end - bytes.at >= 8; bytes.at += 8) {
        uint64_t word;
        memcpy(&word, (const void *)bytes.at, sizeof word);
        *digest = mixed(*digest, word);
    }
    bytes.end = end;
    uint64_t rest = 0;
    while (bytes.at < end)
        rest = rest << 8 | stack_bytes_unsigned(&bytes, 1);
    *digest = mixed(*digest, rest);
    return true;
}

bool stack_tables_digest(const struct stack_tables *tables, uint64_t index, uint64_t *out)
{
    struct stack_bytes bytes = stack_bytes_from(tables, tables->header, tables->end);
    uint64_t header = stack_bytes_unsigned(&bytes, 4);
    stack_bytes_skip(&bytes, 4);
    uint64_t count = stack_bytes_unsigned(&bytes, 4);
    if (bytes.is_bad || header != USUAL_HEADER || index >= count ||
        count > (bytes.end - bytes.at) / USUAL_PAIR_BYTES)
        return false;
    bytes.at += index * USUAL_PAIR_BYTES;
    uint64_t function = stack_bytes_unsigned(&bytes, 4);
    uintptr_t entry = tables->header + (uintptr_t)stack_bytes_signed(&bytes, 4);
    uint64_t next = index + 1 < count ? stack_bytes_unsigned(&bytes, 4) : 0;
    *out = mixed(mixed(function << 32 | next, entry - tables->header), count - index);
    if (!digest_record(tables, entry, out))
        return false;
    bytes = stack_bytes_from(tables, entry + 4, tables->end);
    return digest_record(tables, entry + 4 - stack_bytes_unsigned(&bytes, 4), out);
}
