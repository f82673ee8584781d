//! loads LOAD NUMBER...: runs one of the loads, and prints one line of JSON.
//!
//!     loads symmetric THREADS ROUNDS TASKS
//!     loads asymmetric SEED COUNT
//!     loads mpsc SEED PRODUCERS MILLISECONDS
//!
//! They do what the C programs of these names in bench/workloads do, with strings that cost less to make.

const std = @import("std");
const common = @import("common.zig");

pub fn main(init: std.process.Init.Minimal) !void {
    var words = init.args.iterate();
    _ = words.skip();
    const name = words.next() orelse common.fail("which load: symmetric, asymmetric or mpsc?", .{});
    var numbers: [8]u64 = undefined;
    var count: usize = 0;
    while (words.next()) |word| : (count += 1) {
        if (count == numbers.len) common.fail("too many numbers", .{});
        numbers[count] = std.fmt.parseInt(u64, word, 10) catch common.fail("not a number: {s}", .{word});
    }
    inline for (.{ "symmetric", "asymmetric", "mpsc" }) |known| {
        if (std.mem.eql(u8, name, known)) {
            const load = @field(loads, known);
            if (count != load.arguments) common.fail("{s} takes {d} numbers", .{ known, load.arguments });
            return load.run(numbers[0..load.arguments].*);
        }
    }
    common.fail("there is no load {s}", .{name});
}

const loads = struct {
    const symmetric = @import("symmetric.zig");
    const asymmetric = @import("asymmetric.zig");
    const mpsc = @import("mpsc.zig");
};
