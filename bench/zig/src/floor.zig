//! No allocator: what a load needs on it is the load's own work and the kernel's. A small request takes the next 8, 16,
//! ... bytes of its thread's chunk and is never freed; larger ones are powers of two, kept for the thread's next. So no
//! allocator that gives each block 8 bytes or more can be much below this. Only for loads that keep what is small.

const std = @import("std");
const Allocator = std.mem.Allocator;
const Alignment = std.mem.Alignment;

pub const allocator: Allocator = .{ .ptr = undefined, .vtable = &.{
    .alloc = alloc,
    .resize = Allocator.noResize,
    .remap = Allocator.noRemap,
    .free = free,
} };

const chunk_bytes = 1 << 20;
const block_bytes = 8;
const small_max = 64;

const Freed = struct { below: ?*Freed };

threadlocal var next: usize = 0;
threadlocal var end: usize = 0;
threadlocal var freed: [64]?*Freed = @splat(null);

fn alloc(_: *anyopaque, len: usize, alignment: Alignment, _: usize) ?[*]u8 {
    if (len > small_max) return larger(len, alignment);
    const start = alignment.forward(next);
    const after = start + std.mem.alignForward(usize, len, block_bytes);
    if (after > end) return fresh(len, alignment);
    next = after;
    return @ptrFromInt(start);
}

noinline fn fresh(len: usize, alignment: Alignment) ?[*]u8 {
    const chunk = std.heap.page_allocator.rawAlloc(chunk_bytes, alignment, @returnAddress()) orelse return null;
    next = @intFromPtr(chunk) + std.mem.alignForward(usize, len, block_bytes);
    end = @intFromPtr(chunk) + chunk_bytes;
    return chunk;
}

noinline fn larger(len: usize, alignment: Alignment) ?[*]u8 {
    const power: u6 = @intCast(std.math.log2_int_ceil(usize, len));
    if (freed[power]) |block| {
        freed[power] = block.below;
        return @ptrCast(block);
    }
    return std.heap.page_allocator.rawAlloc(@as(usize, 1) << power, alignment, @returnAddress());
}

fn free(_: *anyopaque, memory: []u8, _: Alignment, _: usize) void {
    if (memory.len <= small_max) return;
    const power: u6 = @intCast(std.math.log2_int_ceil(usize, memory.len));
    const block: *Freed = @ptrCast(@alignCast(memory.ptr));
    block.below = freed[power];
    freed[power] = block;
}
