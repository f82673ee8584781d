//! The allocator under threads: blocks that other threads free, and threads that end.

const std = @import("std");
const calmalloc = @import("calmalloc");
const gpa = calmalloc.allocator;
const expect = std.testing.expect;
const expectEqual = std.testing.expectEqual;

const Ring = struct {
    places: [16]std.atomic.Value(?*[3]u64) = @splat(.init(null)),

    fn put(self: *Ring, at: usize, block: *[3]u64) void {
        const place = &self.places[at % self.places.len];
        while (place.cmpxchgWeak(null, block, .release, .monotonic) != null) std.Thread.yield() catch {};
    }

    fn take(self: *Ring, at: usize) *[3]u64 {
        const place = &self.places[at % self.places.len];
        while (true) {
            if (place.swap(null, .acquire)) |block| return block;
            std.Thread.yield() catch {};
        }
    }
};

const handed = 20_000;

fn produce(ring: *Ring) void {
    for (0..handed) |i| {
        const block = gpa.create([3]u64) catch @panic("no memory");
        block.* = .{ i, i *% 3, ~i };
        ring.put(i, block);
    }
}

test "what one thread makes another frees, whole" {
    var ring: Ring = .{};
    const producer = try std.Thread.spawn(.{}, produce, .{&ring});
    var wrong: usize = 0;
    for (0..handed) |i| {
        const block = ring.take(i);
        wrong += @intFromBool(block[0] != i or block[1] != i *% 3 or block[2] != ~i);
        gpa.destroy(block);
    }
    producer.join();
    try expectEqual(0, wrong);
    try expectEqual(null, calmalloc.verify());
}

fn work(done: *std.atomic.Value(u32)) void {
    var blocks: [64][]u8 = undefined;
    for (&blocks, 0..) |*block, i| block.* = gpa.alloc(u8, 16 + i * 8) catch @panic("no memory");
    for (blocks) |block| gpa.free(block);
    _ = done.fetchAdd(1, .release);
}

fn runSome(count: u32, is_detached: bool) !void {
    var done: std.atomic.Value(u32) = .init(0);
    for (0..count) |i| {
        const thread = try std.Thread.spawn(.{}, work, .{&done});
        if (is_detached) thread.detach() else thread.join();
        while (done.load(.acquire) < i + 1) std.Thread.yield() catch {};
    }
}

test "threads that ended leave their caches to the next ones" {
    try runSome(8, false);
    const before = calmalloc.stats();
    try runSome(300, false);
    const after = calmalloc.stats();
    try expect(after.threads <= 4);
    // A thread that frees may empty one cache while another thread looks for one: then there is one more.
    try expect(after.metadata_bytes <= before.metadata_bytes + 2 * 1024 * 1024);
}

test "so do threads that nobody joins" {
    try runSome(32, true);
    const before = calmalloc.stats();
    try runSome(300, true);
    // A detached thread may still be ending when the next one begins.
    try expect(calmalloc.stats().threads <= 16);
    try expect(calmalloc.stats().metadata_bytes <= before.metadata_bytes + 16 * 1024 * 1024);
}

test "many threads at once, then few" {
    var done: std.atomic.Value(u32) = .init(0);
    var threads: [100]std.Thread = undefined;
    for (&threads) |*thread| thread.* = try std.Thread.spawn(.{}, work, .{&done});
    for (threads) |thread| thread.join();
    try expectEqual(100, done.load(.acquire));
    try runSome(1, false);
    try expect(calmalloc.stats().threads <= 4);
    try expectEqual(null, calmalloc.verify());
}
