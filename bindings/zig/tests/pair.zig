//! A block of 48 bytes made and freed, again and again, the last time between breakpoints: for the test that counts
//! instructions. Argument: c, direct (the allocator is known when it is compiled) or table (it is not).

const std = @import("std");
const calmalloc = @import("calmalloc");
const c = calmalloc.c;

const rounds = 5000;
const Block = [48]u8;

fn breakpointIf(is_traced: bool) void {
    if (is_traced) asm volatile ("int3");
}

/// The compiler must keep each pair, in its order, and know nothing of what is seen.
fn seen(value: anytype) void {
    asm volatile (""
        :
        : [value] "r" (value),
        : .{ .memory = true });
}

fn ofC() void {
    for (0..rounds + 1) |round| {
        breakpointIf(round == rounds);
        const block = c.calm_malloc(@sizeOf(Block));
        seen(block);
        breakpointIf(round == rounds);
        c.calm_free(block);
        breakpointIf(round == rounds);
    }
}

fn direct() void {
    for (0..rounds + 1) |round| {
        breakpointIf(round == rounds);
        const block = calmalloc.allocator.create(Block) catch return;
        seen(block);
        breakpointIf(round == rounds);
        calmalloc.allocator.destroy(block);
        breakpointIf(round == rounds);
    }
}

fn overTable(allocator: *volatile std.mem.Allocator) void {
    for (0..rounds + 1) |round| {
        const known = allocator.*;
        breakpointIf(round == rounds);
        const block = known.create(Block) catch return;
        seen(block);
        breakpointIf(round == rounds);
        known.destroy(block);
        breakpointIf(round == rounds);
    }
}

pub fn main(init: std.process.Init.Minimal) void {
    var words = init.args.iterate();
    _ = words.skip();
    const which = words.next() orelse return;
    var allocator = calmalloc.allocator;
    if (std.mem.eql(u8, which, "c")) @call(.never_inline, ofC, .{});
    if (std.mem.eql(u8, which, "direct")) @call(.never_inline, direct, .{});
    if (std.mem.eql(u8, which, "table")) @call(.never_inline, overTable, .{&allocator});
}
