//! The allocator as the standard library sees it: its own tests of allocators, and what they leave out.

const std = @import("std");
const calmalloc = @import("calmalloc");
const gpa = calmalloc.allocator;
const expect = std.testing.expect;
const expectEqual = std.testing.expectEqual;

test "the standard library's tests of allocators pass" {
    try std.heap.testAllocator(gpa);
    try std.heap.testAllocatorAligned(gpa);
    try std.heap.testAllocatorLargeAlignment(gpa);
    try std.heap.testAllocatorAlignedShrink(gpa);
}

test "blocks of every size and alignment are apart, aligned and whole" {
    var blocks: [4 * 16 * 5]struct { memory: []u8, alignment: std.mem.Alignment, tag: u8 } = undefined;
    var count: usize = 0;
    for ([_]std.mem.Alignment{ .@"1", .@"8", .@"16", .@"64" }) |alignment| {
        for (0..16) |log2| {
            for ([_]usize{ 1, 3, 8, 9, 15 }) |more| {
                const len = (@as(usize, 1) << @intCast(log2)) - 1 + more;
                const block = gpa.rawAlloc(len, alignment, 0) orelse return error.OutOfMemory;
                try expect(alignment.check(@intFromPtr(block)));
                const tag: u8 = @truncate(count *% 7);
                @memset(block[0..len], tag);
                blocks[count] = .{ .memory = block[0..len], .alignment = alignment, .tag = tag };
                count += 1;
            }
        }
    }
    for (blocks[0..count]) |block| {
        for (block.memory) |byte| try expectEqual(block.tag, byte);
        gpa.rawFree(block.memory, block.alignment, 0);
    }
    try expectEqual(null, calmalloc.verify());
}

test "resize says yes where the block has room, and no where it has not" {
    var memory = try gpa.alloc(u8, 40);
    try expect(gpa.resize(memory, 48)); // the block has 48
    memory.len = 48;
    try expect(!gpa.resize(memory, 49));
    try expect(!gpa.resize(memory, 8)); // too much would be kept for nothing
    try expect(gpa.resize(memory, 24));
    memory.len = 24;
    gpa.free(memory);
}

test "remap keeps what is inside, small and large, growing and shrinking" {
    for ([_][2]usize{ .{ 10, 1000 }, .{ 1000, 10 }, .{ 100, 100_000 }, .{ 100_000, 10_000_000 }, .{ 10_000_000, 70_000 } }) |step| {
        var memory = try gpa.alloc(u8, step[0]);
        for (memory, 0..) |*byte, i| byte.* = @truncate(i *% 31);
        memory = gpa.remap(memory, step[1]) orelse return error.TestUnexpectedResult;
        try expectEqual(step[1], memory.len);
        for (memory[0..@min(step[0], step[1])], 0..) |byte, i| try expectEqual(@as(u8, @truncate(i *% 31)), byte);
        gpa.free(memory);
    }
}

test "remap of what is aligned further moves nothing" {
    const memory = try gpa.alignedAlloc(u8, .@"64", 100);
    if (gpa.remap(memory, 110)) |same| try expectEqual(memory.ptr, same.ptr);
    try expectEqual(null, gpa.remap(memory, 100_000));
    gpa.free(memory);
}

test "an impossible request fails, and nothing else" {
    try std.testing.expectError(error.OutOfMemory, gpa.alloc(u8, std.math.maxInt(isize)));
    const failed = calmalloc.stats().failed_calls;
    try expect(failed >= 1);
    gpa.destroy(try gpa.create(u64));
}

test "containers of the standard library live on it" {
    var map: std.AutoHashMapUnmanaged(u32, []u8) = .empty;
    for (0..5000) |i| {
        const text = try std.fmt.allocPrint(gpa, "{d}", .{i});
        try map.put(gpa, @intCast(i), text);
    }
    var bytes: usize = 0;
    for (0..5000) |i| {
        const text = map.fetchRemove(@intCast(i)).?.value;
        try expectEqual(i, try std.fmt.parseInt(usize, text, 10));
        bytes += text.len;
        gpa.free(text);
    }
    map.deinit(gpa);
    try expectEqual(10 + 90 * 2 + 900 * 3 + 4000 * 4, bytes);
}

test "statistics, options and memory that goes back" {
    const before = calmalloc.stats();
    const memory = try gpa.alloc(u8, 1 << 20);
    try expect(calmalloc.stats().allocated_bytes >= before.allocated_bytes + (1 << 20));
    gpa.free(memory);
    _ = calmalloc.trim();
    _ = calmalloc.pageOutCold(0);
    calmalloc.idle();
    calmalloc.onLimit(null);
    try expect(calmalloc.committed() >= calmalloc.charged());
    try calmalloc.setOption("purge_delay_ms", 77);
    try expectEqual(77, try calmalloc.option("purge_delay_ms"));
    try std.testing.expectError(error.UnknownOption, calmalloc.option("no such option"));
    try expect(std.mem.count(u8, calmalloc.version(), ".") == 2);
}
