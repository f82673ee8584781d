/*
 * collapsed.c: writes one line for each stack that has live bytes.
 *
 * A frame is the name of its file and an address in that file, as debuggers number them. The
 * address is the call's: one less than the return address. An address in no file stands for itself.
 *
 * Design: docs/design/profile-formats.md
 */
#include "site/collapsed.h"

#include "site/places.h"

struct collapsed {
    struct profile_out *out;
    const struct module_table *modules;
};

/* Writes the path's last part, without semicolons and blanks, which would end the frame. */
static void write_name(struct profile_out *out, const char *path)
{
    const char *name = path;
    for (const char *c = path; *c != '\0'; c++)
        if (*c == '/')
            name = c + 1;
    for (; *name != '\0'; name++)
        profile_out_bytes(out, *name == ';' || *name == ' ' ? "_" : name, 1);
}

static void write_frame(const struct collapsed *self, uintptr_t caller)
{
    if (place_is(caller)) {
        struct place place = place_of(caller);
        write_name(self->out, place.function);
        profile_out_text(self->out, place.line != 0 ? ":" : "");
        if (place.line != 0)
            profile_out_number(self->out, place.line);
        return;
    }
    uintptr_t address = caller - 1;
    size_t index = module_table_find(self->modules, address);
    if (index == self->modules->count) {
        profile_out_hex(self->out, address);
        return;
    }
    const struct os_module *module = &self->modules->modules[index];
    write_name(self->out, module->path);
    profile_out_text(self->out, "+");
    profile_out_hex(self->out, address - module->bias);
}

static void write_stack(const struct profile_stack *stack, void *context)
{
    const struct collapsed *self = (const struct collapsed *)context;
    if (stack->live_bytes == 0)
        return;
    if (stack->depth == 0)
        profile_out_text(self->out, PROFILE_OTHER_NAME " ");
    for (size_t i = stack->depth; i-- > 0;) {
        write_frame(self, stack->callers[i]);
        profile_out_text(self->out, i > 0 ? ";" : " ");
    }
    profile_out_number(self->out, stack->live_bytes);
    profile_out_text(self->out, "\n");
}

void collapsed_write(struct profile_out *out, const struct profile_source *source,
                     const struct module_table *modules)
{
    struct collapsed self = {out, modules};
    source->visit(write_stack, &self);
}
