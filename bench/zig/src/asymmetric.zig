//! asymmetric SEED COUNT: one thread makes COUNT strings of 7 to 35 bytes and links each, in a node of its own, to the
//! end of a list with a lock; another takes them off, sums them up and frees node and string. At most 1024 wait. What
//! is resident must stay flat.

const std = @import("std");
const common = @import("common.zig");
const Text = common.Text(7, 35);
const gpa = common.gpa;

pub const arguments = 2;
const waiting_max = 1024;

const Node = struct { next: ?*Node, text: []u8 };

const List = struct {
    io: std.Io,
    lock: std.Io.Mutex = .init,
    not_full: std.Io.Condition = .init,
    not_empty: std.Io.Condition = .init,
    first: ?*Node = null,
    last: ?*Node = null,
    count: usize = 0,

    fn put(self: *List, node: *Node) void {
        self.lock.lockUncancelable(self.io);
        defer self.lock.unlock(self.io);
        while (self.count == waiting_max) self.not_full.waitUncancelable(self.io, &self.lock);
        if (self.last) |last| last.next = node else self.first = node;
        self.last = node;
        self.count += 1;
        if (self.count == 1) self.not_empty.signal(self.io);
    }

    fn take(self: *List) *Node {
        self.lock.lockUncancelable(self.io);
        defer self.lock.unlock(self.io);
        while (self.count == 0) self.not_empty.waitUncancelable(self.io, &self.lock);
        const node = self.first.?;
        self.first = node.next;
        if (node.next == null) self.last = null;
        self.count -= 1;
        if (self.count == waiting_max - 1) self.not_full.signal(self.io);
        return node;
    }
};

fn produce(list: *List, seed: u64, count: u64) void {
    for (0..count) |i| {
        const node = gpa.create(Node) catch common.noMemory();
        node.* = .{ .next = null, .text = Text.make(seed + i) };
        list.put(node);
    }
}

pub fn run(numbers: [arguments]u64) !void {
    const seed, const count = numbers;
    var threaded: std.Io.Threaded = .init(.failing, .{});
    var list: List = .{ .io = threaded.io() };
    var readings: common.Readings = .{};
    if (count < readings.values.len) common.fail("at least {d} strings", .{readings.values.len});
    const start = common.seconds();
    const producer = try std.Thread.spawn(.{}, produce, .{ &list, seed, count });
    var sum: u64 = 0;
    for (0..count) |i| {
        const node = list.take();
        sum += Text.verify(node.text, seed + i);
        gpa.free(node.text);
        gpa.destroy(node);
        if ((i + 1) * readings.values.len >= (readings.taken + 1) * count) readings.add();
    }
    producer.join();
    common.print(
        "{{\"seconds\": {d:.6}, \"check\": \"{x:0>16}\", \"resident_max_kib\": {d}, \"resident_drift_kib\": {d}}}\n",
        .{ common.seconds() - start, sum, readings.most(), readings.drift() },
    );
}
