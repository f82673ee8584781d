/*
 * heap_v2.c: writes samples by stack, and the kernel's list of mappings.
 *
 * A reader of this format takes its numbers for samples: it divides the blocks and the bytes of a
 * stack by the chance that a block of their mean size is sampled. The profiler has estimates, so
 * this writer multiplies them by that chance, and the reader arrives at the estimates but for the
 * rounding to whole blocks.
 *
 * The format has no names, so a stack that runs through scripts ends at the first script frame.
 *
 * Design: docs/design/profile-formats.md
 */
#include "site/heap_v2.h"

#include "os/modules.h"
#include "site/places.h"

struct sampled {
    uint64_t blocks, bytes;
};

struct heap_v2 {
    struct profile_out *out;
    double rate_bytes;
    struct sampled live, all;
};

/* 1 - exp(-ratio), to nine digits. Halves the ratio until its power series is short, and doubles
 * back: 1 - exp(-2x) is q (2 - q) when q is 1 - exp(-x). Nothing cancels. */
static double chance(double ratio)
{
    enum { HALVINGS = 12, TERMS = 4 };
    if (ratio > 60)
        return 1;
    double x = ratio / (1 << HALVINGS);
    double q = 0;
    for (unsigned term = TERMS; term > 0; term--)
        q = x / term * (1 - q);
    for (unsigned i = 0; i < HALVINGS; i++)
        q *= 2 - q;
    return q;
}

/* Samples that a reader scales up to these estimates. */
static struct sampled sampled_of(const struct heap_v2 *self, uint64_t blocks, uint64_t bytes)
{
    if (blocks == 0 || bytes == 0)
        return (struct sampled){0, 0};
    if (self->rate_bytes <= 0)
        return (struct sampled){blocks, bytes};
    double count = (double)blocks, total = (double)bytes;
    double part = chance(total / count / self->rate_bytes);
    struct sampled sampled = {(uint64_t)(count * part + 0.5), (uint64_t)(total * part + 0.5)};
    /* Neither may be 0: readers divide by the blocks and by a chance derived from the bytes. */
    sampled.blocks += sampled.blocks == 0;
    sampled.bytes += sampled.bytes == 0;
    return sampled;
}

static void write_counts(struct profile_out *out, struct sampled live, struct sampled all)
{
    profile_out_text(out, "  t*: ");
    profile_out_number(out, live.blocks);
    profile_out_text(out, ": ");
    profile_out_number(out, live.bytes);
    profile_out_text(out, " [");
    profile_out_number(out, all.blocks);
    profile_out_text(out, ": ");
    profile_out_number(out, all.bytes);
    profile_out_text(out, "]\n");
}

static void add_up(const struct profile_stack *stack, void *context)
{
    struct heap_v2 *self = (struct heap_v2 *)context;
    struct sampled live = sampled_of(self, stack->live_blocks, stack->live_bytes);
    struct sampled all = sampled_of(self, stack->all_blocks, stack->all_bytes);
    self->live.blocks += live.blocks;
    self->live.bytes += live.bytes;
    self->all.blocks += all.blocks;
    self->all.bytes += all.bytes;
}

static void write_stack(const struct profile_stack *stack, void *context)
{
    struct heap_v2 *self = (struct heap_v2 *)context;
    profile_out_text(self->out, "@");
    for (size_t i = 0; i < stack->depth && !place_is(stack->callers[i]); i++) {
        profile_out_text(self->out, " ");
        /* Readers subtract one from every address but the first, which they take for no call's. */
        profile_out_hex(self->out, stack->callers[i] - (i == 0 ? 1 : 0));
    }
    if (stack->depth == 0 || place_is(stack->callers[0]))
        profile_out_text(self->out, " 0x1"); /* readers want an address; nothing lies there */
    profile_out_text(self->out, "\n");
    write_counts(self->out, sampled_of(self, stack->live_blocks, stack->live_bytes),
                 sampled_of(self, stack->all_blocks, stack->all_bytes));
}

static void write_maps(const char *words, size_t length, void *context)
{
    profile_out_bytes((struct profile_out *)context, words, length);
}

void heap_v2_write(struct profile_out *out, const struct profile_source *source)
{
    uint64_t rate = source->facts().rate_bytes;
    struct heap_v2 self = {.out = out, .rate_bytes = (double)rate};
    profile_out_text(out, "heap_v2/");
    profile_out_number(out, rate);
    profile_out_text(out, "\n");
    source->visit(add_up, &self);
    write_counts(out, self.live, self.all);
    source->visit(write_stack, &self);
    profile_out_text(out, "\nMAPPED_LIBRARIES:\n");
    os_maps(write_maps, out); /* without /proc the addresses are still worth having */
}
