/*
 * sites.c: writes the sampled sites, module by module.
 *
 * Walks the kernel's list of modules once, and for each module all sites, so neither needs a table.
 * An entry that another thread changes meanwhile may be written half old, half new.
 *
 * Owner: the caller, one at a time for each descriptor. Design: docs/design/wrappers.md
 */
#include "front/sites.h"

#include "base/text.h"
#include "os/modules.h"
#include "os/os.h"
#include "site/wrapper.h"

enum { BUFFER_BYTES = 4096, ENTRY_BYTES_MAX = 256 };

struct out {
    int fd;
    int error; /* of the first failed write, negative */
    bool has_module;
    bool has_site;
    const struct os_module *module;
    struct text text;
    char buffer[BUFFER_BYTES];
};

static void flush(struct out *out)
{
    if (out->error == 0)
        out->error = os_write(out->fd, out->text.start, out->text.length);
    out->text = text_begin(out->buffer, sizeof out->buffer);
}

static void make_room(struct out *out, size_t bytes)
{
    if (out->text.length + bytes >= sizeof out->buffer)
        flush(out);
}

/* Escapes JSON. A path may hold any byte but NUL. */
static void write_string(struct out *out, const char *words)
{
    static const char digits[] = "0123456789abcdef";
    text_add_char(&out->text, '"');
    for (; *words != '\0'; words++) {
        make_room(out, sizeof "\\u0000");
        unsigned char c = (unsigned char)*words;
        if (c < ' ') {
            text_add(&out->text, "\\u00");
            text_add_char(&out->text, digits[c >> 4]);
            text_add_char(&out->text, digits[c & 15]);
            continue;
        }
        if (c == '"' || c == '\\')
            text_add_char(&out->text, '\\');
        text_add_char(&out->text, (char)c);
    }
    text_add_char(&out->text, '"');
}

static void write_site(const struct wrapper_fact *fact, void *context)
{
    static const char *const kinds[] = {
        [WRAPPER_NO] = "site",
        [WRAPPER_FOUND] = "site",
        [WRAPPER_KNOWN] = "wrapper",
        [WRAPPER_BLIND] = "opaque",
    };
    struct out *out = (struct out *)context;
    const struct os_module *module = out->module;
    if (fact->site < module->start || fact->site >= module->end)
        return;
    make_room(out, ENTRY_BYTES_MAX);
    if (!out->has_site) {
        text_add(&out->text, out->has_module ? ",{\"path\":" : "{\"path\":");
        write_string(out, module->path);
        text_add(&out->text, ",\"sites\":[");
    }
    text_format(&out->text, out->has_site ? ",{\"kind\":\"%s\"" : "{\"kind\":\"%s\"",
                kinds[fact->state]);
    text_add_member(&out->text, "offset", fact->site - module->bias);
    text_add_member(&out->text, "samples", fact->samples);
    text_add_member(&out->text, "callers", fact->callers);
    text_add_member(&out->text, "sizes", fact->sizes);
    text_add_char(&out->text, '}');
    out->has_module = out->has_site = true;
}

static void write_module(const struct os_module *module, void *context)
{
    struct out *out = (struct out *)context;
    out->module = module;
    out->has_site = false;
    wrapper_visit(write_site, out);
    if (out->has_site)
        text_add(&out->text, "]}");
}

int sites_write_json(int fd)
{
    struct out out = {.fd = fd};
    out.text = text_begin(out.buffer, sizeof out.buffer);
    struct wrapper_counts counts = wrapper_counts();
    text_add_char(&out.text, '{');
    text_add_member(&out.text, "pid", os_process_id());
    text_add_member(&out.text, "looks", counts.looks);
    text_add_member(&out.text, "wrappers", counts.known);
    text_add_member(&out.text, "opaque", counts.blind);
    text_add_member(&out.text, "mismatches", counts.mismatches);
    text_add(&out.text, ",\"modules\":[");
    int error = os_modules(write_module, &out);
    make_room(&out, ENTRY_BYTES_MAX);
    text_add(&out.text, "]}\n");
    flush(&out);
    return error != 0 ? -error : -out.error;
}
