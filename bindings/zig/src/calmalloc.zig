//! calmalloc, a memory allocator for Linux: `allocator` for general use, and pools with a contract.
//!
//! `allocator` may be used from any thread at any time, has no state to set up and none to clean up, and works in
//! static programs without libc.

const std = @import("std");
const builtin = @import("builtin");
const options = @import("options");
const Allocator = std.mem.Allocator;
const Alignment = std.mem.Alignment;

/// The C functions.
pub const c = @import("c.zig");

const pools = @import("pools.zig");
pub const Pool = pools.Pool;
pub const Region = pools.Region;
pub const Bounded = pools.Bounded;

comptime {
    if (builtin.link_libc and !options.libc)
        @compileError("This program links libc: pass .libc = true to b.dependency(\"calmalloc\", ...).");
    if (!builtin.link_libc) @export(&auxv, .{ .name = "calm_zig_auxv", .visibility = .hidden });
}

/// The general heap.
pub const allocator: Allocator = .{ .ptr = undefined, .vtable = &vtable };

pub const vtable: Allocator.VTable = .{ .alloc = alloc, .resize = resize, .remap = remap, .free = free };

// The arguments are in C's order already, so each of these is little more than a jump.

fn alloc(self: *anyopaque, len: usize, alignment: Alignment, _: usize) ?[*]u8 {
    if (@intFromEnum(alignment) > 3) return c.calm_zig_alloc_aligned(self, len, @intFromEnum(alignment));
    return c.calm_zig_alloc(self, len); // every block is aligned to 8
}

fn resize(self: *anyopaque, memory: []u8, alignment: Alignment, new_len: usize, _: usize) bool {
    return c.calm_zig_resize(self, memory.ptr, memory.len, @intFromEnum(alignment), new_len);
}

fn remap(self: *anyopaque, memory: []u8, alignment: Alignment, new_len: usize, _: usize) ?[*]u8 {
    return c.calm_zig_remap(self, memory.ptr, memory.len, @intFromEnum(alignment), new_len);
}

fn free(self: *anyopaque, memory: []u8, alignment: Alignment, _: usize) void {
    c.calm_zig_free(self, memory.ptr, memory.len, @intFromEnum(alignment));
}

fn auxv() callconv(.c) ?*const anyopaque {
    return @ptrCast(std.os.linux.elf_aux_maybe);
}

/// "major.minor.patch".
pub fn version() []const u8 {
    return std.mem.span(c.calm_version());
}

pub const Stats = c.Stats;

/// What the heap holds now. Costs milliseconds on a large heap: it walks it and asks the kernel.
pub fn stats() Stats {
    var out: Stats = undefined;
    c.calm_stats_read(&out);
    return out;
}

/// Gives back to the kernel every page that holds no live block, as far as it can be reached. Whether there was any.
pub fn trim() bool {
    return c.calm_trim();
}

/// Sends memory of live blocks that lay untouched for `age_ms` to swap, found by trial: what one call tries, a later one
/// sends. 0 sends all at once. What is touched comes back by itself. The bytes that left memory; calmalloc.h says more.
pub fn pageOutCold(age_ms: u64) usize {
    return c.calm_page_out_cold(age_ms);
}

/// Says that the calling thread is about to sleep: its cache is emptied, and what is due goes back to the kernel.
pub fn idle() void {
    c.calm_idle();
}

/// Has `callback` called when a request passes the soft limit, by how many bytes; null: no more. It runs in the thread
/// that asked, at the end of the request, and may free and allocate.
pub fn onLimit(callback: ?*const fn (bytes_over: usize) callconv(.c) void) void {
    c.calm_on_limit(callback);
}

/// How many bytes are readable and writable, as the kernel counts them against RLIMIT_DATA. One load.
pub fn committed() usize {
    return c.calm_committed();
}

/// How many bytes blocks and dirty free memory take, which the options `limit_mb` and `soft_limit_mb` bound.
pub fn charged() usize {
    return c.calm_charged();
}

/// What is wrong with the heap, null if nothing is. Only while no other thread uses it.
pub fn verify() ?[]const u8 {
    return std.mem.span(c.calm_verify() orelse return null);
}

pub const OptionError = error{ UnknownOption, BadValue, OptionIsFixed };

fn optionResult(code: c_int) OptionError!void {
    return switch (code) {
        0 => {},
        @intFromEnum(std.os.linux.E.NOENT) => error.UnknownOption,
        @intFromEnum(std.os.linux.E.PERM) => error.OptionIsFixed,
        else => error.BadValue,
    };
}

/// Reads an option by its name in `CALM_OPTIONS`. Choices are numbers, from 0 in the order they are listed.
pub fn option(name: [*:0]const u8) OptionError!u64 {
    var value: u64 = 0;
    try optionResult(c.calm_option_get(name, &value));
    return value;
}

/// Sets an option that may change while the heap is in use.
pub fn setOption(name: [*:0]const u8, value: u64) OptionError!void {
    return optionResult(c.calm_option_set(name, value));
}
