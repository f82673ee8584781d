//! Builds the module `calmalloc`: the C core, made of the checkout's sources, and the Zig face of it.
//!
//!     zig build test        the tests of the binding and the standard library's tests of allocators
//!     zig build examples    the program of examples/
//!     zig build pair        a program of which a test counts instructions; not with Zig 0.15
//!
//! Without `libc` nothing is linked but what Zig brings, and programs may be static.

const std = @import("std");
const Build = std.Build;

const Settings = struct {
    target: Build.ResolvedTarget,
    optimize: std.builtin.OptimizeMode,
    libc: bool,
    assertions: bool,
};

pub fn build(b: *Build) void {
    const settings: Settings = .{
        .target = b.standardTargetOptions(.{}),
        .optimize = b.standardOptimizeOption(.{}),
        .libc = b.option(bool, "libc", "the program links libc") orelse false,
        .assertions = b.option(bool, "assertions", "the allocator checks itself; slow") orelse false,
    };
    const made = amalgamation(b);
    const module = calmalloc(b, settings, made);
    addTests(b, settings, module, made);
    addPrograms(b, settings, module);
}

/// One C file and one header of all sources.
fn amalgamation(b: *Build) Build.LazyPath {
    const made = b.addSystemCommand(&.{"python3"});
    made.addFileArg(b.path("../../tools/amalgamate.py"));
    made.addArg("--root");
    made.addDirectoryArg(b.path("../.."));
    made.addArg("--depfile");
    _ = made.addDepFileOutputArg("calmalloc.d");
    made.addArg("--out");
    return made.addOutputDirectoryArg("c");
}

fn calmalloc(b: *Build, settings: Settings, made: Build.LazyPath) *Build.Module {
    const options = b.addOptions();
    options.addOption(bool, "libc", settings.libc);
    const module = b.addModule("calmalloc", .{
        .root_source_file = b.path("src/calmalloc.zig"),
        .target = settings.target,
        .optimize = .ReleaseFast, // an allocator that nobody debugs: a debug build is not slowed by it
        .omit_frame_pointer = true,
        .link_libc = if (settings.libc) true else null,
        .imports = &.{.{ .name = "options", .module = options.createModule() }},
    });
    module.addIncludePath(made);
    if (!settings.libc) addHeaders(b, module, settings.target.result.cpu.arch);
    module.addCSourceFile(.{
        .file = b.path("c/core.c"),
        .flags = &.{
            "-std=c11",
            "-O2",
            "-fno-sanitize=all",
            "-fvisibility=hidden",
            if (settings.libc) "-DCALM_LIBC" else "-DCALM_ALONE",
            if (settings.assertions) "-DCALM_CHECKS=2" else "-DCALM_CHECKS=1",
        },
    });
    return module;
}

/// The declarations of a C library and of the kernel, which Zig has with it, and none of the library.
fn addHeaders(b: *Build, module: *Build.Module, arch: std.Target.Cpu.Arch) void {
    const name, const kernel = switch (arch) {
        .x86_64 => .{ "x86_64-linux-musl", "x86-linux-any" },
        .aarch64 => .{ "aarch64-linux-musl", "aarch64-linux-any" },
        else => @panic("calmalloc runs on x86-64 and aarch64."),
    };
    for ([_][]const u8{ name, "generic-musl", kernel, "any-linux-any" }) |folder| {
        const path = b.fmt("libc/include/{s}", .{folder});
        module.addSystemIncludePath(if (@hasField(Build.Graph, "zig_lib_directory"))
            .{ .cwd_relative = b.graph.zig_lib_directory.join(b.allocator, &.{path}) catch @panic("OOM") }
        else
            b.graph.path(.zig_lib, path));
    }
}

fn addTests(b: *Build, settings: Settings, module: *Build.Module, made: Build.LazyPath) void {
    const root = b.createModule(.{
        .root_source_file = b.path("tests/all.zig"),
        .target = settings.target,
        .optimize = settings.optimize,
        .link_libc = if (settings.libc) true else null,
        .imports = &.{.{ .name = "calmalloc", .module = module }},
    });
    root.addIncludePath(made);
    if (!settings.libc) addHeaders(b, root, settings.target.result.cpu.arch);
    root.addCSourceFile(.{ .file = b.path("tests/layouts.c"), .flags = &.{"-std=c11"} });
    const tests = b.addTest(.{ .root_module = root });
    b.step("test", "Runs the tests").dependOn(&b.addRunArtifact(tests).step);
}

fn addPrograms(b: *Build, settings: Settings, module: *Build.Module) void {
    addProgram(b, settings, module, b.step("examples", "Builds the examples"), "examples/drop_in.zig");
    addProgram(b, settings, module, b.step("pair", "Builds what the test of the fast path traces"), "tests/pair.zig");
}

fn addProgram(b: *Build, settings: Settings, module: *Build.Module, step: *Build.Step, path: []const u8) void {
    const program = b.addExecutable(.{
        .name = std.fs.path.stem(path),
        .root_module = b.createModule(.{
            .root_source_file = b.path(path),
            .target = settings.target,
            .optimize = settings.optimize,
            .link_libc = if (settings.libc) true else null,
            .imports = &.{.{ .name = "calmalloc", .module = module }},
        }),
    });
    step.dependOn(&b.addInstallArtifact(program, .{}).step);
}
