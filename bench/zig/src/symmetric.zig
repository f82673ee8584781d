//! symmetric THREADS ROUNDS TASKS: in each of ROUNDS a pool of THREADS works on TASKS tasks; task n grows an array
//! to n by doubling, and makes n strings, the numbers below n in digits: of 1 to 4 bytes up to 10000 tasks. The array is
//! freed at the task's end, the strings are kept for ever, so what is resident is their number times the smallest block.
//!
//! Each string's digits are summed at its task's end, one in 64 is looked at again at the end of everything. What the
//! sum must be is computed without a string.

const std = @import("std");
const common = @import("common.zig");
const gpa = common.gpa;

pub const arguments = 3;
const kept_every = 64;

const Kept = struct { text: []u8, number: usize };

fn digitsOf(number: usize) usize {
    var count: usize = 1;
    var left = number / 10;
    while (left != 0) : (left /= 10) count += 1;
    return count;
}

fn make(number: usize) []u8 {
    const text = gpa.alloc(u8, digitsOf(number)) catch common.noMemory();
    var left = number;
    var at = text.len;
    while (at > 0) : (left /= 10) {
        at -= 1;
        text[at] = @intCast(left % 10);
    }
    return text;
}

fn sumOf(text: []const u8) u64 {
    var sum: u64 = text.len;
    for (text) |digit| sum += digit;
    return sum;
}

/// What sumOf says of the digits of `number`.
fn expected(number: usize) u64 {
    var sum: u64 = 0;
    var left = number;
    for (0..digitsOf(number)) |_| {
        sum += 1 + left % 10;
        left /= 10;
    }
    return sum;
}

const State = struct {
    rounds: u64,
    tasks: u64,
    kept: []Kept,
    kept_count: std.atomic.Value(u64) = .init(0),
    next_task: std.atomic.Value(u64) = .init(0),
    strings: std.atomic.Value(u64) = .init(0),
    sum: std.atomic.Value(u64) = .init(0),

    fn runTask(self: *State, task: u64) !void {
        var array: [][]u8 = &.{};
        for (0..task) |i| {
            if (i == array.len) array = try gpa.realloc(array, @max(1, array.len * 2));
            array[i] = make(i);
        }
        var sum: u64 = 0;
        for (array[0..task], 0..) |text, i| {
            sum += sumOf(text);
            if (i % kept_every == 0) self.kept[self.kept_count.fetchAdd(1, .monotonic)] = .{ .text = text, .number = i };
        }
        gpa.free(array);
        _ = self.sum.fetchAdd(sum, .monotonic);
        _ = self.strings.fetchAdd(task, .monotonic);
    }

    /// Tasks are handed out in order, from the largest of a round to the smallest.
    fn work(self: *State) void {
        while (true) {
            const mine = self.next_task.fetchAdd(1, .monotonic);
            if (mine >= self.rounds * self.tasks) return;
            self.runTask(self.tasks - 1 - mine % self.tasks) catch common.noMemory();
        }
    }
};

pub fn run(numbers: [arguments]u64) !void {
    const threads, const rounds, const tasks = numbers;
    var state: State = .{
        .rounds = rounds,
        .tasks = tasks,
        .kept = try std.heap.page_allocator.alloc(Kept, rounds * tasks * (tasks / kept_every + 1)),
    };
    @memset(state.kept, .{ .text = &.{}, .number = 1 });
    const before = common.residentKib();
    const start = common.seconds();
    var pool: [64]std.Thread = undefined;
    for (pool[0..threads]) |*thread| thread.* = try std.Thread.spawn(.{}, State.work, .{&state});
    for (pool[0..threads]) |thread| thread.join();
    const wall = common.seconds() - start;
    const grown = common.residentKib() - before;
    for (state.kept[0..state.kept_count.raw]) |kept| {
        if (sumOf(kept.text) != expected(kept.number)) common.fail("string {d} changed", .{kept.number});
    }
    var wanted: u64 = 0;
    for (0..tasks) |number| wanted += expected(number) * (tasks - 1 - number) * rounds;
    if (state.sum.raw != wanted) common.fail("the digits sum to {d}, not {d}", .{ state.sum.raw, wanted });
    if (state.strings.raw != rounds * (tasks * (tasks - 1) / 2)) common.fail("strings are missing", .{});
    const each = grown * 1024 / @as(f64, @floatFromInt(state.strings.raw));
    common.print(
        "{{\"seconds\": {d:.6}, \"check\": \"{x:0>16}\", \"grown_kib\": {d}, \"bytes_a_string\": {d:.3}}}\n",
        .{ wall, wanted, grown, each },
    );
}
