//! Builds the loads with one allocator: -Dallocator=calm, smp, c or floor.

const std = @import("std");

const Name = enum { calm, smp, c, floor };

pub fn build(b: *std.Build) void {
    const name = b.option(Name, "allocator", "calm, smp (the standard library's), c (libc's) or floor (none)") orelse .calm;
    const target = b.standardTargetOptions(.{});
    const module = b.createModule(.{
        .root_source_file = b.path("src/main.zig"),
        .target = target,
        .optimize = .ReleaseFast,
        .link_libc = name == .c,
    });
    const options = b.addOptions();
    options.addOption(Name, "allocator", name);
    module.addOptions("options", options);
    if (name == .calm) module.addImport("calmalloc", b.dependency("calmalloc", .{ .target = target }).module("calmalloc"));
    b.installArtifact(b.addExecutable(.{ .name = "loads", .root_module = module }));
}
