//! Pools, regions and bounded heaps through their `Allocator` faces.

const std = @import("std");
const calmalloc = @import("calmalloc");
const expect = std.testing.expect;
const expectEqual = std.testing.expectEqual;
const expectError = std.testing.expectError;

const config: calmalloc.Pool.Config = .{
    .classes = &.{ .{ .bytes = 32, .percent = 40 }, .{ .bytes = 512, .percent = 60 } },
    .bytes = 1 << 20,
};

test "a pool hands out blocks of its classes until they are exhausted, and takes them back" {
    var pool = try calmalloc.Pool.init(config);
    defer pool.deinit();
    const allocator = pool.allocator();
    const total = pool.stats().by_class[1].blocks;
    var count: usize = 0;
    var last: []u8 = &.{};
    while (allocator.alloc(u8, 500)) |memory| {
        count += 1;
        last = memory;
    } else |err| try expectEqual(error.OutOfMemory, err);
    try expectEqual(total, count);
    allocator.free(last);
    try expectEqual(last.ptr, (try allocator.alloc(u8, 500)).ptr);
    try expectError(error.OutOfMemory, allocator.alloc(u8, 513));
}

test "a pool's block grows up to its class" {
    var pool = try calmalloc.Pool.init(config);
    defer pool.deinit();
    const allocator = pool.allocator();
    var memory = try allocator.alloc(u8, 20);
    try expect(allocator.resize(memory, 32));
    memory.len = 32;
    try expect(!allocator.resize(memory, 33));
    memory = try allocator.realloc(memory, 100);
    try expect(pool.owns(memory.ptr));
    allocator.free(memory);
}

fn freeAll(allocator: std.mem.Allocator, blocks: [][]u8) void {
    for (blocks) |block| allocator.free(block);
}

test "another thread frees into a pool by its remote face" {
    var pool = try calmalloc.Pool.init(config);
    defer pool.deinit();
    var blocks: [100][]u8 = undefined;
    for (&blocks) |*block| block.* = try pool.allocator().alloc(u8, 24);
    try expectError(error.OutOfMemory, pool.remote().alloc(u8, 1));
    const thread = try std.Thread.spawn(.{}, freeAll, .{ pool.remote(), &blocks });
    thread.join();
    for (0..10_000) |_| _ = pool.drain();
    const class = pool.stats().by_class[0];
    try expectEqual(class.blocks, class.free_blocks);
    try expectEqual(100, class.remote_frees);
}

test "a configuration that cannot be is refused" {
    var wrong = config;
    wrong.bytes = 100;
    try expectError(error.BadConfiguration, calmalloc.Pool.init(wrong));
    wrong = config;
    wrong.classes = &.{.{ .bytes = 32, .percent = 99 }};
    try expectError(error.BadConfiguration, calmalloc.Pool.init(wrong));
    wrong.classes = &.{.{ .bytes = 32, .percent = 100, .blocks = 5 }};
    try expectError(error.BadConfiguration, calmalloc.Pool.init(wrong));
    wrong.classes = &.{ .{ .bytes = 32, .blocks = 5 }, .{ .bytes = 64 } };
    try expectError(error.BadConfiguration, calmalloc.Pool.init(wrong));
}

test "a pool has as many blocks as it was told" {
    const counted: calmalloc.Pool.Config = .{
        .classes = &.{ .{ .bytes = 32, .blocks = 7 }, .{ .bytes = 512, .blocks = 3 } },
    };
    const limits = try calmalloc.Pool.limits(counted);
    try expectEqual(3, limits.blocks[1]);
    try expect(limits.remote_calls[1] >= 1);
    var pool = try calmalloc.Pool.init(counted);
    defer pool.deinit();
    for (0..7) |_| _ = try pool.allocator().alloc(u8, 32);
    try expectError(error.OutOfMemory, pool.allocator().alloc(u8, 32));
}

test "a region is given back to a mark" {
    var memory: [4096]u8 = undefined;
    var region = try calmalloc.Region.init(&memory);
    const allocator = region.allocator();
    _ = try allocator.alloc(u64, 10);
    const mark = region.mark();
    const second = try allocator.alloc(u8, 2000);
    try expectError(error.OutOfMemory, allocator.alloc(u8, 3000));
    try region.release(mark);
    try expectEqual(second.ptr, (try allocator.alloc(u8, 2000)).ptr);
    const high = region.mark();
    try region.release(mark);
    try expectError(error.WrongMark, region.release(high));
}

test "the standard library's tests of allocators pass on a bounded heap" {
    const memory = try calmalloc.allocator.alignedAlloc(u8, .@"64", 4 << 20);
    defer calmalloc.allocator.free(memory);
    const heap = try calmalloc.Bounded.init(memory);
    try std.heap.testAllocator(heap.allocator());
    try expectError(error.OutOfMemory, heap.allocator().alignedAlloc(u8, .fromByteUnits(128), 1));
}

test "a bounded heap says how much memory it needs" {
    try expect(calmalloc.Bounded.capacity(100_000, 100, 10_000).? > 100_000);
    try expectEqual(null, calmalloc.Bounded.capacity(1 << 40, 100, 10_000));
}
