//! symmetric SEED THREADS ROUNDS TASKS: in each of ROUNDS a pool of THREADS works on TASKS tasks; task n grows an array
//! to n by doubling, and makes n strings of 1 to 4 bytes. The array is freed at the task's end, the strings are kept
//! for ever, so what is resident is their number times the smallest block.

const std = @import("std");
const common = @import("common.zig");
const Text = common.Text(1, 4);
const gpa = common.gpa;

pub const arguments = 4;
const kept_every = 64;

const Kept = struct { text: []u8, number: u64 };

const State = struct {
    seed: u64,
    rounds: u64,
    tasks: u64,
    kept: []Kept,
    kept_count: std.atomic.Value(u64) = .init(0),
    next_task: std.atomic.Value(u64) = .init(0),
    strings: std.atomic.Value(u64) = .init(0),

    /// A number that no other string has: which round, which task, which place.
    fn numberOf(self: *const State, round: u64, task: u64, place: u64) u64 {
        return ((self.seed * self.rounds + round) * self.tasks + task) * self.tasks + place;
    }

    fn runTask(self: *State, round: u64, task: u64) !void {
        var array: [][]u8 = &.{};
        for (0..task) |i| {
            if (i == array.len) array = try gpa.realloc(array, @max(1, array.len * 2));
            array[i] = Text.make(self.numberOf(round, task, i));
        }
        for (0..task) |i| {
            const number = self.numberOf(round, task, i);
            _ = Text.verify(array[i], number);
            if (i % kept_every == 0)
                self.kept[self.kept_count.fetchAdd(1, .monotonic)] = .{ .text = array[i], .number = number };
        }
        gpa.free(array);
        _ = self.strings.fetchAdd(task, .monotonic);
    }

    /// Tasks are handed out in order, from the largest of a round to the smallest.
    fn work(self: *State) void {
        while (true) {
            const mine = self.next_task.fetchAdd(1, .monotonic);
            if (mine >= self.rounds * self.tasks) return;
            self.runTask(mine / self.tasks, self.tasks - 1 - mine % self.tasks) catch common.noMemory();
        }
    }
};

pub fn run(numbers: [arguments]u64) !void {
    const seed, const threads, const rounds, const tasks = numbers;
    var state: State = .{
        .seed = seed,
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
    var check: u64 = 0;
    for (state.kept[0..state.kept_count.raw]) |kept| check += Text.verify(kept.text, kept.number);
    if (state.strings.raw != rounds * (tasks * (tasks - 1) / 2)) common.fail("strings are missing", .{});
    const each = grown * 1024 / @as(f64, @floatFromInt(state.strings.raw));
    common.print(
        "{{\"seconds\": {d:.6}, \"check\": \"{x:0>16}\", \"grown_kib\": {d}, \"bytes_a_string\": {d:.3}}}\n",
        .{ wall, check, grown, each },
    );
}
