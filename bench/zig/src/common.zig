//! What the loads share: the allocator, clocks, what is resident, the line of JSON, and strings whose
//! length and bytes follow from their number alone, so that who frees one can tell whether it is whole. They are cheap
//! to make and to look at: what is measured is the allocator.

const std = @import("std");
const options = @import("options");
const linux = std.os.linux;

pub const gpa: std.mem.Allocator = switch (options.allocator) {
    .calm => @import("calmalloc").allocator,
    .smp => std.heap.smp_allocator,
    .c => std.heap.c_allocator,
    .floor => @import("floor.zig").allocator,
};

pub fn fail(comptime format: []const u8, values: anytype) noreturn {
    std.debug.print("loads: " ++ format ++ "\n", values);
    std.process.exit(1);
}

pub fn noMemory() noreturn {
    fail("no memory", .{});
}

pub fn seconds() f64 {
    var now: linux.timespec = undefined;
    _ = linux.clock_gettime(.MONOTONIC, &now);
    return @as(f64, @floatFromInt(now.sec)) + @as(f64, @floatFromInt(now.nsec)) * 1e-9;
}

/// The kernel's exact count. Makes no request of the allocator.
pub fn residentKib() f64 {
    var text: [8192]u8 = undefined;
    var filled: usize = 0;
    const file: i32 = @intCast(linux.open("/proc/self/smaps_rollup", .{ .CLOEXEC = true }, 0));
    while (filled < text.len) {
        const got = linux.read(file, text[filled..].ptr, text.len - filled);
        if (got == 0 or got > text.len) break;
        filled += got;
    }
    _ = linux.close(file);
    const at = std.mem.indexOf(u8, text[0..filled], "\nRss:") orelse fail("the kernel does not say what is resident", .{});
    var words = std.mem.tokenizeAny(u8, text[at + 5 .. filled], " \n");
    return std.fmt.parseFloat(f64, words.next().?) catch unreachable;
}

pub fn print(comptime format: []const u8, values: anytype) void {
    var line: [1024]u8 = undefined;
    const text = std.fmt.bufPrint(&line, format, values) catch unreachable;
    _ = linux.write(1, text.ptr, text.len);
}

/// A string of `min` to `max` bytes, as its number says, each the lowest byte of its number.
pub fn Text(comptime min: u64, comptime max: u64) type {
    return struct {
        fn length(number: u64) usize {
            const mixed = (number *% 0x9e3779b97f4a7c15) >> 32;
            return min + ((mixed * (max - min + 1)) >> 32);
        }

        pub fn make(number: u64) []u8 {
            const text = gpa.alloc(u8, length(number)) catch noMemory();
            @memset(text, @truncate(number));
            return text;
        }

        /// Its bytes, for a sum; fails unless it is string `number`, whole.
        pub fn verify(text: []const u8, number: u64) u64 {
            const wanted: u8 = @truncate(number);
            var sum: u64 = 0;
            for (text) |byte| sum += byte;
            if (text.len != length(number) or sum != text.len * wanted or text[0] != wanted)
                fail("string {d} changed", .{number});
            return sum + text.len;
        }
    };
}

/// What is resident, evenly over a run, in KiB.
pub const Readings = struct {
    values: [50]f64 = undefined,
    taken: usize = 0,

    const judged = 10;

    pub fn add(self: *Readings) void {
        self.values[self.taken] = residentKib();
        self.taken += 1;
    }

    fn median(values: *const [judged]f64) f64 {
        var sorted = values.*;
        std.mem.sort(f64, &sorted, {}, std.sort.asc(f64));
        return sorted[judged / 2];
    }

    /// What the last ten have more than the second ten; the first are warm-up.
    pub fn drift(self: *const Readings) f64 {
        return median(self.values[self.values.len - judged ..][0..judged]) - median(self.values[judged..][0..judged]);
    }

    pub fn most(self: *const Readings) f64 {
        return std.mem.max(f64, &self.values);
    }
};
