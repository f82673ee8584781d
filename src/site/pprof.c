/*
 * pprof.c: encodes the profile as one protocol buffer message, field by field.
 *
 * A repeated field may be spread over the message, so strings and locations are written at their
 * first use, and only their numbers are kept. Small messages are built on the stack, since their
 * length comes first. A location that finds the table full is written again at each use: the
 * profile grows, no number changes, and a comment says how often.
 *
 * Addresses are one less than the return addresses, so that they lie in the call. Places in scripts
 * have names instead.
 *
 * Design: docs/design/profile-formats.md
 */
#include "site/pprof.h"

#include "base/bits.h"
#include "base/check.h"
#include "base/text.h"
#include "calmalloc/calmalloc.h"
#include "os/os.h"
#include "site/places.h"

/* Field numbers of profile.proto. */
enum profile_field {
    PROFILE_SAMPLE_TYPE = 1,
    PROFILE_SAMPLE = 2,
    PROFILE_MAPPING = 3,
    PROFILE_LOCATION = 4,
    PROFILE_FUNCTION = 5,
    PROFILE_STRING_TABLE = 6,
    PROFILE_TIME_NANOS = 9,
    PROFILE_DURATION_NANOS = 10,
    PROFILE_PERIOD_TYPE = 11,
    PROFILE_PERIOD = 12,
    PROFILE_COMMENT = 13,
    PROFILE_DEFAULT_SAMPLE_TYPE = 14,
};
enum value_type_field { VALUE_TYPE_TYPE = 1, VALUE_TYPE_UNIT = 2 };
enum sample_field { SAMPLE_LOCATION_ID = 1, SAMPLE_VALUE = 2 };
enum mapping_field {
    MAPPING_ID = 1,
    MAPPING_START = 2,
    MAPPING_LIMIT = 3,
    MAPPING_OFFSET = 4,
    MAPPING_FILENAME = 5,
    MAPPING_BUILD_ID = 6,
};
enum location_field {
    LOCATION_ID = 1,
    LOCATION_MAPPING_ID = 2,
    LOCATION_ADDRESS = 3,
    LOCATION_LINE = 4,
};
enum line_field { LINE_FUNCTION_ID = 1, LINE_LINE = 2 };
enum function_field { FUNCTION_ID = 1, FUNCTION_NAME = 2, FUNCTION_FILENAME = 4 };

enum wire_type { WIRE_VARINT = 0, WIRE_BYTES = 2 };

/* Strings that every profile has, in the order of their numbers. */
enum string_number {
    STRING_EMPTY,
    STRING_ALLOC_OBJECTS,
    STRING_COUNT,
    STRING_ALLOC_SPACE,
    STRING_BYTES,
    STRING_INUSE_OBJECTS,
    STRING_INUSE_SPACE,
    STRING_SPACE,
    STRING_FIXED_COUNT
};
static const char *const strings_fixed[STRING_FIXED_COUNT] = {
    "", "alloc_objects", "count", "alloc_space", "bytes", "inuse_objects", "inuse_space", "space",
};

enum {
    VARINT_BYTES_MAX = 10,
    MESSAGE_BYTES_MAX = 96, /* a mapping has the most: six numbers and their keys */
    COMMENT_BYTES = 160,
    OTHER_ID = 1 << 30, /* of the place for stacks without a row; above all others */
};
struct message {
    size_t used;
    unsigned char bytes[MESSAGE_BYTES_MAX];
};

struct pprof {
    struct profile_out *out;
    const struct module_table *modules;
    struct pprof_locations *locations;
    uint64_t string_count;
    uint64_t location_count; /* written, repeats included */
    uint64_t function_count; /* written, repeats included */
};

static void put_varint(struct message *message, uint64_t value)
{
    ASSERT(message->used + VARINT_BYTES_MAX <= MESSAGE_BYTES_MAX);
    for (; value >= 0x80; value >>= 7)
        message->bytes[message->used++] = (unsigned char)(value | 0x80);
    message->bytes[message->used++] = (unsigned char)value;
}

static void put_key(struct message *message, unsigned field, enum wire_type type)
{
    put_varint(message, field << 3 | type);
}

static void put_number(struct message *message, unsigned field, uint64_t value)
{
    put_key(message, field, WIRE_VARINT);
    put_varint(message, value);
}

/* The format's values are signed, calmalloc's are not. */
static void put_value(struct message *message, unsigned field, uint64_t value)
{
    put_number(message, field, value > INT64_MAX ? INT64_MAX : value);
}

static void write_bytes(struct pprof *self, unsigned field, const void *bytes, size_t count)
{
    struct message key = {.used = 0};
    put_key(&key, field, WIRE_BYTES);
    put_varint(&key, count);
    profile_out_bytes(self->out, key.bytes, key.used);
    profile_out_bytes(self->out, bytes, count);
}

static void write_message(struct pprof *self, unsigned field, const struct message *message)
{
    write_bytes(self, field, message->bytes, message->used);
}

static void write_number(struct pprof *self, unsigned field, uint64_t value)
{
    struct message message = {.used = 0};
    put_value(&message, field, value);
    profile_out_bytes(self->out, message.bytes, message.used);
}

/* Adds a string to the profile's table. Returns its number. */
static uint64_t write_string(struct pprof *self, const char *words)
{
    size_t length = 0;
    while (words[length] != '\0')
        length++;
    write_bytes(self, PROFILE_STRING_TABLE, words, length);
    return self->string_count++;
}

static void write_type(struct pprof *self, unsigned field, enum string_number type,
                       enum string_number unit)
{
    struct message message = {.used = 0};
    put_number(&message, VALUE_TYPE_TYPE, type);
    put_number(&message, VALUE_TYPE_UNIT, unit);
    write_message(self, field, &message);
}

static void write_facts(struct pprof *self, const struct profile_facts *facts)
{
    for (unsigned i = 0; i < STRING_FIXED_COUNT; i++)
        write_string(self, strings_fixed[i]);
    write_type(self, PROFILE_SAMPLE_TYPE, STRING_ALLOC_OBJECTS, STRING_COUNT);
    write_type(self, PROFILE_SAMPLE_TYPE, STRING_ALLOC_SPACE, STRING_BYTES);
    write_type(self, PROFILE_SAMPLE_TYPE, STRING_INUSE_OBJECTS, STRING_COUNT);
    write_type(self, PROFILE_SAMPLE_TYPE, STRING_INUSE_SPACE, STRING_BYTES);
    write_type(self, PROFILE_PERIOD_TYPE, STRING_SPACE, STRING_BYTES);
    write_number(self, PROFILE_PERIOD, facts->rate_bytes);
    write_number(self, PROFILE_TIME_NANOS, facts->start_ns);
    write_number(self, PROFILE_DURATION_NANOS, facts->duration_ns);
    write_number(self, PROFILE_DEFAULT_SAMPLE_TYPE, STRING_INUSE_SPACE);
}

static uint64_t write_build_id(struct pprof *self, const struct os_module *module)
{
    char digits[2 * OS_BUILD_ID_MAX + 1];
    struct text text = text_begin(digits, sizeof digits);
    for (size_t i = 0; i < module->build_id_bytes; i++) {
        text_add_hex(&text, module->build_id[i] >> 4);
        text_add_hex(&text, module->build_id[i] & 15);
    }
    return write_string(self, text.start);
}

/* A mapping's number is its place in the module table, from 1 on. Readers take the first mapping
 * for the program's, so it is written first: a library may lie below it. */
static void write_mappings(struct pprof *self, bool of_program)
{
    for (size_t i = 0; i < self->modules->count; i++) {
        const struct os_module *module = &self->modules->modules[i];
        if (module->is_program != of_program)
            continue;
        struct message message = {.used = 0};
        put_number(&message, MAPPING_ID, i + 1);
        put_number(&message, MAPPING_START, module->start);
        put_number(&message, MAPPING_LIMIT, module->end);
        put_number(&message, MAPPING_OFFSET, module->offset);
        put_number(&message, MAPPING_FILENAME, write_string(self, module->path));
        if (module->build_id_bytes > 0)
            put_number(&message, MAPPING_BUILD_ID, write_build_id(self, module));
        write_message(self, PROFILE_MAPPING, &message);
    }
}

/* Writes a location with one line: a name, and no address. */
static void write_named(struct pprof *self, uint64_t id, uint64_t function_id, struct place place)
{
    struct message function = {.used = 0}, line = {.used = 0}, location = {.used = 0};
    put_number(&function, FUNCTION_ID, function_id);
    put_number(&function, FUNCTION_NAME, write_string(self, place.function));
    if (place.file[0] != '\0')
        put_number(&function, FUNCTION_FILENAME, write_string(self, place.file));
    write_message(self, PROFILE_FUNCTION, &function);
    put_number(&line, LINE_FUNCTION_ID, function_id);
    if (place.line != 0)
        put_number(&line, LINE_LINE, place.line);
    put_number(&location, LOCATION_ID, id);
    put_key(&location, LOCATION_LINE, WIRE_BYTES);
    put_varint(&location, line.used);
    for (size_t i = 0; i < line.used; i++)
        location.bytes[location.used++] = line.bytes[i];
    write_message(self, PROFILE_LOCATION, &location);
}

static uint64_t write_location(struct pprof *self, uintptr_t address)
{
    uint64_t id = ++self->location_count;
    if (place_is(address)) {
        write_named(self, id, ++self->function_count, place_of(address));
        return id;
    }
    size_t module = module_table_find(self->modules, address);
    struct message message = {.used = 0};
    put_number(&message, LOCATION_ID, id);
    if (module < self->modules->count)
        put_number(&message, LOCATION_MAPPING_ID, module + 1);
    put_number(&message, LOCATION_ADDRESS, address);
    write_message(self, PROFILE_LOCATION, &message);
    return id;
}

/* Number of the address's location, which is written when new. */
static uint64_t location_of(struct pprof *self, uintptr_t address)
{
    const uint64_t golden = 0x9E3779B97F4A7C15u; /* 2^64 over the golden ratio: spreads well */
    struct pprof_locations *table = self->locations;
    size_t slot = (address * golden) >> (64 - PPROF_LOCATION_BITS);
    while (table->slots[slot].address != 0 && table->slots[slot].address != address)
        slot = (slot + 1) % PPROF_LOCATION_SLOTS;
    if (table->slots[slot].address == address)
        return table->slots[slot].id;
    uint64_t id = write_location(self, address);
    if (table->count < PPROF_LOCATIONS_MAX) {
        table->slots[slot].address = address;
        table->slots[slot].id = id;
        table->count++;
    }
    return id;
}

/* Writes the place of all stacks without a row. */
static uint64_t write_other(struct pprof *self)
{
    write_named(self, OTHER_ID, OTHER_ID, (struct place){"", PROFILE_OTHER_NAME, 0});
    return OTHER_ID;
}

static size_t varint_bytes(uint64_t value)
{
    return 1 + bit_highest(value | 1) / 7;
}

/* Writes the locations before the sample, whose length comes first, and keeps their numbers. */
static void write_sample(const struct profile_stack *stack, void *context)
{
    struct pprof *self = (struct pprof *)context;
    uint64_t ids[PROFILE_DEPTH_MAX];
    size_t count = 0, ids_bytes = 0;
    if (stack->depth == 0)
        ids_bytes = varint_bytes(ids[count++] = write_other(self));
    for (size_t i = 0; i < size_min(stack->depth, PROFILE_DEPTH_MAX); i++) {
        if (stack->callers[i] <= 1) /* address 0 is no location's */
            continue;
        ids[count] = location_of(self, stack->callers[i] - !place_is(stack->callers[i]));
        ids_bytes += varint_bytes(ids[count++]);
    }
    struct message values = {.used = 0}, head = {.used = 0}, sample = {.used = 0};
    put_value(&values, SAMPLE_VALUE, stack->all_blocks);
    put_value(&values, SAMPLE_VALUE, stack->all_bytes);
    put_value(&values, SAMPLE_VALUE, stack->live_blocks);
    put_value(&values, SAMPLE_VALUE, stack->live_bytes);
    put_key(&head, SAMPLE_LOCATION_ID, WIRE_BYTES);
    put_varint(&head, ids_bytes);
    put_key(&sample, PROFILE_SAMPLE, WIRE_BYTES);
    put_varint(&sample, values.used + head.used + ids_bytes);
    profile_out_bytes(self->out, sample.bytes, sample.used);
    profile_out_bytes(self->out, values.bytes, values.used);
    profile_out_bytes(self->out, head.bytes, head.used);
    for (size_t i = 0; i < count; i++) {
        struct message id = {.used = 0};
        put_varint(&id, ids[i]);
        profile_out_bytes(self->out, id.bytes, id.used);
    }
}

static void write_comment(struct pprof *self, struct text *text)
{
    write_number(self, PROFILE_COMMENT, write_string(self, text->start));
    text->length = 0;
}

/* Comments on how the numbers came about; last, when all counts are final. */
static void write_comments(struct pprof *self, const struct profile_facts *facts)
{
    char words[COMMENT_BYTES];
    struct text text = text_begin(words, sizeof words);
    text_format(&text, "calmalloc " CALM_VERSION_TEXT "; %zu samples, %zu lost, %zu cut",
                (size_t)facts->samples, (size_t)facts->samples_lost, (size_t)facts->samples_cut);
    write_comment(self, &text);
    text_format(&text, "pid %u", os_process_id());
    write_comment(self, &text);
    if (self->modules->error != 0) {
        text_format(&text, "no mappings: reading them failed with error %zu",
                    (size_t)-self->modules->error);
        write_comment(self, &text);
    }
    if (self->modules->left_out > 0) {
        text_format(&text, "%zu mappings left out: the table of %zu is full",
                    self->modules->left_out, self->modules->count);
        write_comment(self, &text);
    }
    if (self->location_count > self->locations->count) {
        text_format(&text, "%zu locations repeat others: the table of %u is full",
                    (size_t)self->location_count - self->locations->count, PPROF_LOCATIONS_MAX);
        write_comment(self, &text);
    }
}

void pprof_write(struct profile_out *out, const struct profile_source *source,
                 const struct module_table *modules, struct pprof_locations *locations)
{
    struct pprof self = {.out = out, .modules = modules, .locations = locations};
    struct profile_facts facts = source->facts();
    write_facts(&self, &facts);
    write_mappings(&self, true);
    write_mappings(&self, false);
    source->visit(write_sample, &self);
    write_comments(&self, &facts);
}
