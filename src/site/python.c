/*
 * python.c: walks the Python frames of the calling thread, and reads the line of each.
 *
 * A caller in `_PyEval_EvalFrameDefault` shows that Python runs on this stack. The one call into
 * the interpreter asks for the thread's own state, a thread-specific value: it takes no lock, no
 * reference and no memory, and needs no GIL. All else is read from memory: frames, their code
 * objects, and of these the texts and the table of lines. Layouts are constants of a minor version.
 * An object counts only if its type is the right one, and every page is checked before it is read,
 * so a wrong layout ends the walk and nothing else.
 *
 * Owner: any thread; facts of the interpreter are written once, cached places may be overwritten at
 * any time. Design: docs/decisions/python-lines.md
 */
#include "site/python.h"

#include "base/atomic.h"
#include "base/bits.h"
#include "os/symbols.h"
#include "site/places.h"

/* Formats of a code object's table of lines. */
enum lines { LINES_LNOTAB, LINES_RANGES, LINES_LOCATIONS };

/* Offsets of fields, in bytes. */
struct layout {
    uint8_t thread_frame; /* in the thread's state: its innermost frame, or what points to it    */
    uint8_t frame_beyond; /* of the frame behind that pointer; IS_FRAME: there is no pointer     */
    uint8_t code;         /* of a frame                                                          */
    uint8_t previous;
    uint8_t at;         /* the instruction: an index, or its address                            */
    uint8_t unit_bytes; /* of that index; 0: it is an address                                  */
    uint8_t file;       /* of a code object                                                    */
    uint8_t name;
    uint8_t first_line;
    uint8_t table;
    uint8_t instructions; /* 0: not needed                                                       */
    uint8_t text_header;  /* of an ASCII string; others: text_header_wide                        */
    uint8_t text_header_wide;
    uint8_t lines;
    uint8_t owner; /* of a frame: OWNED_BY_C is the interpreter's own; 0: none             */
};
enum { IS_FRAME = 255, OWNED_BY_C = 3, VERSION_FIRST = 9, VERSION_LAST = 13 };

static const struct layout layouts[] = {
    {24, IS_FRAME, 32, 24, 104, 1, 104, 112, 40, 120, 0, 48, 72, LINES_LNOTAB, 0}, /* 3.9 */
    {24, IS_FRAME, 32, 24, 96, 2, 104, 112, 40, 120, 0, 48, 72, LINES_RANGES, 0},
    {56, 8, 32, 48, 56, 0, 112, 128, 72, 136, 184, 48, 72, LINES_LOCATIONS, 0},
    {56, 0, 0, 8, 56, 0, 112, 128, 68, 136, 192, 40, 56, LINES_LOCATIONS, 70},
    {72, IS_FRAME, 0, 8, 56, 0, 112, 128, 68, 136, 200, 40, 56, LINES_LOCATIONS, 70}, /* 3.13 */
};
_Static_assert(sizeof layouts / sizeof *layouts == VERSION_LAST - VERSION_FIRST + 1, "one each");

/* Common to all layouts. */
enum {
    OBJECT_TYPE = 8,
    OBJECT_SIZE = 16, /* of str and bytes */
    TEXT_STATE = 32,
    BYTES_DATA = 32,
    CODE_UNIT_BYTES = 2,
    TEXT_MAX = 1 << 16,
    TABLE_MAX = 1 << 24,
};

enum { PAGE_LOG2 = 12, ASKED = 256, READABLE = 16, FOUND_LOG2 = 10, FRAMES_MAX = 256 };

/* Written by the thread that makes `state` KNOWN; constant from then on. */
static struct {
    uintptr_t code, code_end; /* of the function that runs Python */
    uintptr_t type_code, type_text, type_bytes;
    void *(*thread)(void);     /* the state that runs Python on this thread, or NULL */
    void *(*thread_any)(void); /* this thread's state, running or not */
    const struct layout *layout;
} python;
enum { UNKNOWN, CHANGES, KNOWN };
static _Atomic uint32_t state;

/* Pages of code in whose module no interpreter was found. */
static _Atomic uintptr_t asked[ASKED];

/* A cached place: its word, and that word XOR a hash of its inputs, so that a torn pair does not
 * match. */
struct found {
    _Atomic uint64_t mixed;
    _Atomic uint64_t word;
};
static struct found *_Atomic founds;

/* Pages found readable in this walk. */
struct walk {
    const struct layout *layout;
    uintptr_t pages[READABLE];
};

size_t python_bytes(void)
{
    return sizeof(struct found) << FOUND_LOG2;
}

void python_start(void *memory)
{
    store(&founds, (struct found *)memory, RELEASE);
}

static uintptr_t address_of(const void *code, const char *name)
{
    struct os_symbol symbol;
    return os_symbol_find(code, name, &symbol) ? (uintptr_t)symbol.address : 0;
}

/* Minor version of the interpreter in the module around `code`; 0: not supported. */
static unsigned version_of(const void *code)
{
    const unsigned long *version = (const unsigned long *)address_of(code, "Py_Version");
    if (version != NULL) /* from 3.11 on */
        return *version >> 24 == 3 ? *version >> 16 & 0xFF : 0;
    if (address_of(code, "PyIter_Send") != 0)
        return 10;
    return address_of(code, "PyObject_CallNoArgs") != 0 ? 9 : 0;
}

/* Reads the facts of the interpreter in the module around `code`. False: none that is supported. */
static bool read_interpreter(const void *code)
{
    struct os_symbol run;
    unsigned version = version_of(code);
    if (version < VERSION_FIRST || version > VERSION_LAST ||
        !os_symbol_find(code, "_PyEval_EvalFrameDefault", &run))
        return false;
    python.code = (uintptr_t)run.address;
    python.code_end = python.code + run.bytes;
    python.type_code = address_of(code, "PyCode_Type");
    python.type_text = address_of(code, "PyUnicode_Type");
    python.type_bytes = address_of(code, "PyBytes_Type");
    uintptr_t own = address_of(code, "PyGILState_GetThisThreadState"), current = 0;
    if (version >= 12) { /* before, any running thread's */
        current = address_of(code, "PyThreadState_GetUnchecked");
        current = current != 0 ? current : address_of(code, "_PyThreadState_UncheckedGet");
    }
    python.thread = (void *(*)(void))(current != 0 ? current : own);
    python.thread_any = (void *(*)(void))own;
    python.layout = &layouts[version - VERSION_FIRST];
    return python.code != 0 && python.type_code != 0 && python.type_text != 0 &&
           python.type_bytes != 0 && own != 0;
}

/* Looks for an interpreter in the modules of callers that were not searched yet. */
static bool find_interpreter(const uintptr_t *callers, size_t depth)
{
    for (size_t i = 0; i < depth; i++) {
        uintptr_t page = callers[i] >> PAGE_LOG2;
        _Atomic uintptr_t *known = &asked[page % ASKED];
        if (likely(load(known, RELAXED) == page))
            continue;
        uint32_t expected = UNKNOWN;
        if (!compare_swap(&state, &expected, CHANGES, ACQUIRE, RELAXED))
            return false; /* another thread looks */
        bool is_found = read_interpreter((const void *)callers[i]);
        if (!is_found)
            store(known, page, RELAXED);
        store(&state, is_found ? KNOWN : UNKNOWN, RELEASE);
        if (is_found)
            return true;
    }
    return false;
}

static bool can_read(struct walk *walk, uintptr_t at, size_t bytes)
{
    uintptr_t last = (at + bytes - 1) >> PAGE_LOG2;
    if (at >> PAGE_LOG2 == 0 || bytes > TABLE_MAX + 1 || at + bytes < at)
        return false;
    for (uintptr_t page = at >> PAGE_LOG2; page <= last; page++) {
        uintptr_t *known = &walk->pages[page % READABLE];
        if (*known == page)
            continue;
        if (!os_is_readable(page << PAGE_LOG2))
            return false;
        *known = page;
    }
    return true;
}

/* The word at `at`; 0: unreadable. */
static uintptr_t word_at(struct walk *walk, uintptr_t at)
{
    return at % sizeof at == 0 && can_read(walk, at, sizeof at) ? *(const volatile uintptr_t *)at
                                                                : 0;
}

/* The integer of 4 bytes at `at`; -1: unreadable. */
static int32_t number_at(struct walk *walk, uintptr_t at)
{
    return can_read(walk, at, 4) ? *(const volatile int32_t *)at : -1;
}

static bool is_of(struct walk *walk, uintptr_t object, uintptr_t type)
{
    return object != 0 && object % sizeof object == 0 &&
           word_at(walk, object + OBJECT_TYPE) == type;
}

static bool read_text(struct walk *walk, uintptr_t object, struct place_text *out)
{
    if (!is_of(walk, object, python.type_text))
        return false;
    uintptr_t count = word_at(walk, object + OBJECT_SIZE);
    int32_t flags = number_at(walk, object + TEXT_STATE);
    unsigned unit_bytes = flags >> 2 & 7, is_compact = flags >> 5 & 1, is_ascii = flags >> 6 & 1;
    if (count > TEXT_MAX || !is_compact || (unit_bytes != 1 && unit_bytes != 2 && unit_bytes != 4))
        return false;
    uintptr_t data = object +
                     (is_ascii ? walk->layout->text_header : walk->layout->text_header_wide);
    *out = (struct place_text){(const void *)data, (uint32_t)count, unit_bytes};
    return can_read(walk, data, count * unit_bytes + 1);
}

/* The unread part of a table of lines. */
struct table {
    const uint8_t *next, *end;
};

static unsigned table_byte(struct table *table)
{
    return table->next < table->end ? *table->next++ : 0;
}

/* Integer of variable length, of 3.11 and later: six bits a byte, the lowest first. */
static uint32_t table_varint(struct table *table)
{
    unsigned byte = table_byte(table);
    uint32_t value = byte & 63;
    for (unsigned shift = 6; (byte & 64) != 0 && shift < 32; shift += 6) {
        byte = table_byte(table);
        value |= (byte & 63) << shift;
    }
    return value;
}

static int32_t table_signed(struct table *table)
{
    uint32_t value = table_varint(table);
    return (value & 1) != 0 ? -(int32_t)(value >> 1) : (int32_t)(value >> 1);
}

/* 3.9: pairs of a step in bytes and a step in lines. */
static uint32_t line_by_lnotab(struct table table, int32_t line, uintptr_t at)
{
    for (uintptr_t address = 0; table.end - table.next >= 2;) {
        address += table_byte(&table);
        if (address > at)
            break;
        line += (int8_t)table_byte(&table);
    }
    return (uint32_t)line;
}

/* 3.10: pairs of a number of bytes and a step to their line; NO_LINE: they have none. */
static uint32_t line_by_ranges(struct table table, int32_t line, uintptr_t at)
{
    enum { NO_LINE = -128 };
    for (uintptr_t end = 0; table.end - table.next >= 2;) {
        end += table_byte(&table);
        int8_t step = (int8_t)table_byte(&table);
        line += step != NO_LINE ? step : 0;
        if (end > at)
            return step != NO_LINE ? (uint32_t)line : 0;
    }
    return 0;
}

/* 3.11 and later: entries of a byte with a kind and a number of code units, then what the kind
 * needs; only an entry's first byte has the highest bit. */
static uint32_t line_by_locations(struct table table, int32_t line, uintptr_t at)
{
    enum { ONE_LINE_FIRST = 10, ONE_LINE_LAST = 12, NO_COLUMNS = 13, LONG = 14, NONE = 15 };
    for (uintptr_t end = 0; table.next < table.end;) {
        unsigned head = table_byte(&table), kind = head >> 3 & 15;
        end += ((head & 7) + 1) * CODE_UNIT_BYTES;
        if (kind == NO_COLUMNS || kind == LONG)
            line += table_signed(&table);
        else if (kind >= ONE_LINE_FIRST && kind <= ONE_LINE_LAST)
            line += (int32_t)(kind - ONE_LINE_FIRST);
        if (end > at)
            return kind != NONE ? (uint32_t)line : 0;
        while (table.next < table.end && (*table.next & 0x80) == 0)
            table.next++;
    }
    return 0;
}

/* Line of the code's byte `at`; 0: none. */
static uint32_t line_of(struct walk *walk, uintptr_t code, uintptr_t at)
{
    uintptr_t bytes = word_at(walk, code + walk->layout->table);
    int32_t first = number_at(walk, code + walk->layout->first_line);
    if (!is_of(walk, bytes, python.type_bytes))
        return 0;
    uintptr_t size = word_at(walk, bytes + OBJECT_SIZE);
    if (size > TABLE_MAX || !can_read(walk, bytes + BYTES_DATA, size + 1))
        return 0;
    const uint8_t *data = (const uint8_t *)(bytes + BYTES_DATA);
    struct table table = {data, data + size};
    uint32_t line = 0;
    switch ((enum lines)walk->layout->lines) {
    case LINES_LNOTAB: line = line_by_lnotab(table, first, at); break;
    case LINES_RANGES: line = line_by_ranges(table, first, at); break;
    case LINES_LOCATIONS: line = line_by_locations(table, first, at); break;
    }
    return (int32_t)line < 0 ? 0 : line;
}

/* Byte of its code that a frame stands at. */
static uintptr_t position_of(struct walk *walk, uintptr_t frame, uintptr_t code)
{
    const struct layout *layout = walk->layout;
    if (layout->unit_bytes != 0) {
        int32_t index = number_at(walk, frame + layout->at);
        return index < 0 ? 0 : (uintptr_t)index * layout->unit_bytes;
    }
    uintptr_t at = word_at(walk, frame + layout->at), first = code + layout->instructions;
    return at < first ? 0 : at - first;
}

/* Hash of all inputs of a frame's word. Equal hashes count as equal inputs. */
static uint64_t hash_of(struct walk *walk, uintptr_t code, uintptr_t at)
{
    const struct layout *layout = walk->layout;
    uintptr_t words[] = {
        code,
        at,
        word_at(walk, code + layout->file),
        word_at(walk, code + layout->name),
        word_at(walk, code + layout->table),
        (uint32_t)number_at(walk, code + layout->first_line),
    };
    uint64_t hash = 1;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        hash = (hash ^ words[i]) * 0x9E3779B97F4A7C15;
        hash ^= hash >> 32;
    }
    return hash;
}

/* Word of a place in a code object; 0: unreadable. */
static uintptr_t word_of(struct walk *walk, uintptr_t code, uintptr_t at)
{
    uint64_t hash = hash_of(walk, code, at);
    struct found *found = &load(&founds, ACQUIRE)[hash >> (64 - FOUND_LOG2)];
    uintptr_t word = load(&found->word, RELAXED);
    if (word != 0 && (load(&found->mixed, RELAXED) ^ word) == hash)
        return word;
    struct place_text file, name;
    if (!read_text(walk, word_at(walk, code + walk->layout->file), &file) ||
        !read_text(walk, word_at(walk, code + walk->layout->name), &name))
        return 0;
    word = place_enter(file, name, line_of(walk, code, at));
    store(&found->mixed, hash ^ word, RELAXED);
    store(&found->word, word, RELAXED);
    return word;
}

/* Whether a frame is of no function: the interpreter puts one in front of those that C calls. */
static bool is_of_c(struct walk *walk, uintptr_t frame)
{
    uintptr_t at = frame + walk->layout->owner;
    return walk->layout->owner != 0 && can_read(walk, at, 1) &&
           *(const volatile uint8_t *)at == OWNED_BY_C;
}

/* Writes the words of the frames from `frame` on outwards, at most `max`. Returns their number. */
static size_t walk_frames(struct walk *walk, uintptr_t frame, uintptr_t *words, size_t max)
{
    const struct layout *layout = walk->layout;
    size_t count = 0;
    for (unsigned i = 0; frame != 0 && count < max && i < FRAMES_MAX; i++) {
        uintptr_t code = word_at(walk, frame + layout->code);
        if (is_of(walk, code, python.type_code) && !is_of_c(walk, frame)) {
            uintptr_t word = word_of(walk, code, position_of(walk, frame, code));
            words[count] = word;
            count += word != 0;
        }
        frame = word_at(walk, frame + layout->previous);
    }
    return count;
}

static NOINLINE size_t add_frames(uintptr_t *words, size_t max)
{
    struct walk walk = {.layout = python.layout, .pages = {0}};
    void *thread = python.thread();
    if (thread == NULL)
        thread = python.thread_any();
    uintptr_t frame = word_at(&walk, (uintptr_t)thread + walk.layout->thread_frame);
    if (thread == NULL || frame == 0)
        return 0;
    if (walk.layout->frame_beyond != IS_FRAME)
        frame = word_at(&walk, frame + walk.layout->frame_beyond);
    return walk_frames(&walk, frame, words, max);
}

size_t python_replace(uintptr_t *callers, size_t depth, size_t max)
{
    if (load(&state, ACQUIRE) != KNOWN && !find_interpreter(callers, depth))
        return depth;
    size_t first = 0;
    while (first < depth && callers[first] - python.code - 1 >= python.code_end - python.code)
        first++;
    if (first == depth)
        return depth;
    size_t added = add_frames(callers + first, max - first);
    return added == 0 ? depth : first + added;
}
