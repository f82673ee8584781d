//! A word count that was written for std.heap.smp_allocator: the line that says `gpa` is all that changed.

const std = @import("std");
const gpa = @import("calmalloc").allocator; // was: std.heap.smp_allocator

const text = "the quick brown fox jumps over the lazy dog and the dog does not mind the fox";

pub fn main() !void {
    var counts: std.StringHashMapUnmanaged(u32) = .empty;
    defer counts.deinit(gpa);
    var words = std.mem.tokenizeScalar(u8, text, ' ');
    while (words.next()) |word| {
        const entry = try counts.getOrPutValue(gpa, word, 0);
        entry.value_ptr.* += 1;
    }
    std.debug.print("{d} words, \"the\" {d} times\n", .{ counts.count(), counts.get("the").? });
}
