//! Exports the C names over std.heap.smp_allocator, so that it can be preloaded.
//!
//! Zig tells an allocator the size of what it frees; C does not. Small blocks lie in slabs of 64 KiB, each of one size
//! and never given back, so a table of one byte for 64 KiB of address space holds that size; it is reserved and not
//! touched where there is no slab. Large blocks carry their size in front of them.

const std = @import("std");
const heap = std.heap.smp_allocator;
const Alignment = std.mem.Alignment;

extern fn __errno_location() *c_int;

const slab_log2 = 16;
const small_max = 1 << 15; // the largest block that smp_allocator takes from a slab
const align_min = 16;
const page = 4096;
const header_bytes = 16;
const no_memory = 12;
const invalid = 22;

/// log2 of the block size of each slab, and 0 where there is none. Written once a slab: all who see 0 write the same.
/// Reserved by the first call, as calls come before constructors.
var slab_sizes: ?[*]u8 = null;
const table_bytes = 1 << (47 - slab_log2);

/// Of a large block: what was asked of the heap, and how far into it the block begins.
const Header = extern struct { bytes: usize, offset: usize };

fn reserveTable() ?[*]u8 {
    const flags: std.posix.MAP = .{ .TYPE = .PRIVATE, .ANONYMOUS = true, .NORESERVE = true };
    const made = std.posix.mmap(null, table_bytes, .{ .READ = true, .WRITE = true }, flags, -1, 0) catch return null;
    const other = @cmpxchgStrong(?[*]u8, &slab_sizes, null, made.ptr, .release, .acquire) orelse return made.ptr;
    std.posix.munmap(made);
    return other;
}

fn sizeOfSlab(table: [*]u8, block: [*]u8) *u8 {
    return &table[@intFromPtr(block) >> slab_log2];
}

/// log2 of the size of a block in a slab, 0 for a large one.
fn smallLog2(block: [*]u8) u8 {
    return @atomicLoad(u8, sizeOfSlab(slab_sizes.?, block), .unordered);
}

fn headerOf(block: [*]u8) *Header {
    return @ptrCast(@alignCast(block - header_bytes));
}

fn noMemory() ?[*]u8 {
    __errno_location().* = no_memory;
    return null;
}

fn allocate(asked: usize, alignment: usize) ?[*]u8 {
    const bytes = @max(asked, 8, if (alignment > align_min) alignment else 0);
    const table = @atomicLoad(?[*]u8, &slab_sizes, .acquire) orelse reserveTable() orelse return noMemory();
    if (bytes > small_max) return allocateLarge(asked, @max(alignment, align_min));
    const log2: u6 = @intCast(std.math.log2_int_ceil(usize, bytes));
    const block = heap.rawAlloc(@as(usize, 1) << log2, .@"1", 0) orelse return noMemory();
    const known = sizeOfSlab(table, block);
    if (@atomicLoad(u8, known, .unordered) != log2) @atomicStore(u8, known, log2, .unordered);
    return block;
}

fn allocateLarge(asked: usize, alignment: usize) ?[*]u8 {
    if (asked > std.math.maxInt(isize) - alignment) return noMemory();
    // At least a large block, so that the heap does not take it from a slab.
    const bytes = @max(asked + alignment, small_max + 1);
    const start = heap.rawAlloc(bytes, .fromByteUnits(alignment), 0) orelse return noMemory();
    const block = start + alignment;
    headerOf(block).* = .{ .bytes = bytes, .offset = alignment };
    return block;
}

fn usable(block: [*]u8) usize {
    const log2 = smallLog2(block);
    if (log2 != 0) return @as(usize, 1) << @intCast(log2);
    return headerOf(block).bytes - headerOf(block).offset;
}

fn release(block: [*]u8) void {
    const log2 = smallLog2(block);
    if (log2 != 0) return heap.rawFree(block[0 .. @as(usize, 1) << @intCast(log2)], .@"1", 0);
    const header = headerOf(block).*;
    const start = block - header.offset;
    heap.rawFree(start[0..header.bytes], .fromByteUnits(header.offset), 0);
}

/// Lets the heap grow or shrink a large block by moving pages, as it does for Zig programs.
fn remapLarge(block: [*]u8, asked: usize) ?[*]u8 {
    const header = headerOf(block).*;
    if (header.offset != align_min or asked <= small_max or asked > std.math.maxInt(isize) - align_min) return null;
    const start = block - header.offset;
    const moved = heap.rawRemap(start[0..header.bytes], .fromByteUnits(header.offset), asked + header.offset, 0) orelse
        return null;
    const result = moved + header.offset;
    headerOf(result).bytes = asked + header.offset;
    return result;
}

export fn malloc(bytes: usize) ?[*]u8 {
    return allocate(bytes, align_min);
}

export fn free(block: ?[*]u8) void {
    if (block) |given| release(given);
}

export fn calloc(count: usize, each: usize) ?[*]u8 {
    const bytes = std.math.mul(usize, count, each) catch return noMemory();
    const block = allocate(bytes, align_min) orelse return null;
    // Large blocks are fresh pages.
    if (bytes <= small_max) @memset(block[0..bytes], 0);
    return block;
}

export fn realloc(block: ?[*]u8, bytes: usize) ?[*]u8 {
    const old = block orelse return malloc(bytes);
    if (bytes == 0) {
        release(old);
        return null;
    }
    const had = usable(old);
    if (bytes <= had and bytes >= had / 2) return old;
    if (had > small_max) if (remapLarge(old, bytes)) |moved| return moved;
    const new = malloc(bytes) orelse return null;
    const kept = @min(had, bytes);
    @memcpy(new[0..kept], old[0..kept]);
    release(old);
    return new;
}

export fn memalign(alignment: usize, bytes: usize) ?[*]u8 {
    const rounded = std.math.ceilPowerOfTwo(usize, @max(alignment, align_min)) catch return noMemory();
    return allocate(bytes, rounded);
}

export fn valloc(bytes: usize) ?[*]u8 {
    return allocate(bytes, page);
}

export fn pvalloc(bytes: usize) ?[*]u8 {
    if (bytes > std.math.maxInt(isize)) return noMemory();
    return allocate(@max(std.mem.alignForward(usize, bytes, page), page), page);
}

export fn reallocarray(block: ?[*]u8, count: usize, each: usize) ?[*]u8 {
    return realloc(block, std.math.mul(usize, count, each) catch return noMemory());
}

export fn aligned_alloc(alignment: usize, bytes: usize) ?[*]u8 {
    return memalign(alignment, bytes);
}

export fn posix_memalign(out: *?[*]u8, alignment: usize, bytes: usize) c_int {
    if (!std.math.isPowerOfTwo(alignment) or alignment < @sizeOf(usize)) return invalid;
    out.* = memalign(alignment, bytes) orelse return no_memory;
    return 0;
}

export fn malloc_usable_size(block: ?[*]u8) usize {
    return if (block) |given| usable(given) else 0;
}
