/*
 * places.c: a table of functions by a hash of their name and file, and the texts behind it.
 *
 * A word is a bit, the function's index and the line. The thread that first puts its hash into an
 * entry copies the texts and then publishes where they are; meanwhile the function has no name. Two
 * functions with one hash of 64 bits count as one.
 *
 * Owner: any thread, lock-free. An entry is written once. A fork's child never learns the name of
 * an entry that another thread had half written.
 */
#include "site/places.h"

#include "base/atomic.h"
#include "base/bits.h"

enum {
    FUNCTIONS_LOG2 = 14,
    FUNCTIONS = 1 << FUNCTIONS_LOG2, /* index 0: functions without room */
    TEXT_BYTES = 1 << 20,
    UNITS_MAX = 500, /* kept of a text: the last of a file, the first of a function */
    UTF8_MAX = 4,
    PROBES_MAX = 64,
    LINE_BITS = 24,
};
#define OTHER_NAME "(other functions of scripts)"
#define PENDING_NAME "(a function of a script)"

struct function {
    _Atomic uint64_t hash; /* 0: free */
    _Atomic uint32_t text; /* offset of its file, then its name; 0: not yet */
    uint32_t padding;
};

struct tables {
    struct function functions[FUNCTIONS];
    char text[TEXT_BYTES];
};

static struct tables *_Atomic tables;
static _Atomic uint32_t text_used = 1;

size_t places_bytes(void)
{
    return sizeof(struct tables);
}

void places_start(void *memory)
{
    store(&tables, (struct tables *)memory, RELEASE);
}

static uint32_t unit_at(struct place_text text, uint32_t index)
{
    switch (text.unit_bytes) {
    case 1: return ((const uint8_t *)text.units)[index];
    case 2: return ((const uint16_t *)text.units)[index];
    default: return ((const uint32_t *)text.units)[index];
    }
}

static uint64_t hash_add(uint64_t hash, struct place_text text)
{
    for (uint32_t i = 0; i < text.count; i++)
        hash = (hash ^ unit_at(text, i)) * 0x100000001B3;
    hash = (hash ^ text.count) * 0x9E3779B97F4A7C15;
    return hash ^ hash >> 32;
}

/* Writes a text as UTF-8, with a NUL. Returns the number of bytes. */
static uint32_t put(char *to, struct place_text text)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < text.count; i++) {
        uint32_t unit = unit_at(text, i);
        if (unit < 0x80) {
            to[used++] = (char)(unit != 0 ? unit : ' ');
            continue;
        }
        unsigned more = unit < 0x800 ? 1 : unit < 0x10000 ? 2 : 3;
        to[used++] = (char)(0xF0 << (3 - more) | unit >> 6 * more);
        while (more-- > 0)
            to[used++] = (char)(0x80 | (unit >> 6 * more & 0x3F));
    }
    to[used++] = '\0';
    return used;
}

/* Copies the texts of an entry that the caller owns. */
static void fill(struct tables *in, struct function *entry, struct place_text file,
                 struct place_text function)
{
    uint32_t most = (file.count + function.count) * UTF8_MAX + 2;
    uint32_t at = fetch_add(&text_used, most, RELAXED);
    if (at > TEXT_BYTES - most) {
        fetch_sub(&text_used, most, RELAXED);
        return;
    }
    put(in->text + at + put(in->text + at, file), function);
    store(&entry->text, at, RELEASE);
}

static struct place_text last_of(struct place_text text)
{
    uint32_t more = text.count > UNITS_MAX ? text.count - UNITS_MAX : 0;
    return (struct place_text){(const char *)text.units + (size_t)more * text.unit_bytes,
                               text.count - more, text.unit_bytes};
}

/* Index of a function's entry; 0: no room. */
static uint32_t index_of(struct tables *in, struct place_text file, struct place_text function)
{
    uint64_t hash = hash_add(hash_add(1, file), function) | 1;
    for (uint32_t probe = 0; probe < PROBES_MAX; probe++) {
        uint32_t index = (uint32_t)(hash >> (64 - FUNCTIONS_LOG2)) + probe;
        if ((index &= FUNCTIONS - 1) == 0)
            continue;
        struct function *entry = &in->functions[index];
        uint64_t found = load(&entry->hash, RELAXED);
        if (found == 0 && compare_swap(&entry->hash, &found, hash, RELAXED, RELAXED)) {
            fill(in, entry, file, function);
            return index;
        }
        if (found == hash)
            return index;
    }
    return 0;
}

uintptr_t place_enter(struct place_text file, struct place_text function, uint32_t line)
{
    struct tables *in = load(&tables, ACQUIRE);
    function.count = function.count < UNITS_MAX ? function.count : UNITS_MAX;
    uintptr_t index = index_of(in, last_of(file), function);
    uintptr_t kept = index == 0 || line >> LINE_BITS != 0 ? 0 : line;
    return (uintptr_t)1 << 63 | index << LINE_BITS | kept;
}

struct place place_of(uintptr_t word)
{
    struct tables *in = load(&tables, ACQUIRE);
    uint32_t index = word >> LINE_BITS & (FUNCTIONS - 1);
    uint32_t text = in == NULL || index == 0 ? 0 : load(&in->functions[index].text, ACQUIRE);
    if (text == 0)
        return (struct place){"", index == 0 ? OTHER_NAME : PENDING_NAME, 0};
    const char *file = in->text + text, *function = file;
    while (*function++ != '\0') {}
    return (struct place){file, function, (uint32_t)(word & ((1 << LINE_BITS) - 1))};
}

const struct watch_fact places_facts[] = {
    FACT_AT("places.tables", tables),
    FACT_NUMBER("places.count", FUNCTIONS),
    FACT_NUMBER("places.entry_bytes", sizeof(struct function)),
    FACT_NUMBER("places.text_of", offsetof(struct function, text)),
    FACT_NUMBER("places.text", offsetof(struct tables, text)),
    FACT_NUMBER("places.text_bytes", TEXT_BYTES),
    FACT_NUMBER("places.line_bits", LINE_BITS),
    FACTS_END,
};
