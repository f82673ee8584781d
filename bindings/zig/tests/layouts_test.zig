//! The structs and numbers of src/c.zig are those of the C header: layouts.c says what C's compiler makes of it.

const std = @import("std");
const c = @import("calmalloc").c;
const expect = std.testing.expect;
const expectEqual = std.testing.expectEqual;

const Layout = extern struct { type: [*:0]const u8, field: ?[*:0]const u8, offset: usize, bytes: usize };

extern const calm_zig_layouts: [1000]Layout; // as many as the next one says
extern const calm_zig_layout_count: usize;
extern const calm_zig_classes_max: c_int;
extern const calm_zig_bounded_unit: c_int;
extern const calm_zig_ok: c_int;
extern const calm_zig_no_memory: c_int;
extern const calm_zig_mark: c_int;

fn ofC(type_name: []const u8, field: ?[]const u8) ?Layout {
    for (calm_zig_layouts[0..calm_zig_layout_count]) |layout| {
        if (!std.mem.eql(u8, std.mem.span(layout.type), type_name)) continue;
        const wanted = field orelse if (layout.field == null) return layout else continue;
        const there = layout.field orelse continue;
        if (std.mem.eql(u8, std.mem.span(there), wanted)) return layout;
    }
    return null;
}

const pairs = .{
    .{ "calm_stats", c.Stats },
    .{ "calm_pool_config", c.PoolConfig },
    .{ "calm_pool_cost", c.PoolCost },
    .{ "calm_pool_limits", c.PoolLimits },
    .{ "calm_pool_class_stats", c.PoolClassStats },
    .{ "calm_pool_stats", c.PoolStats },
    .{ "calm_region", c.RegionState },
};

test "each struct has C's size, and each of its fields C's place and size" {
    var compared: usize = 0;
    inline for (pairs) |pair| {
        const whole = ofC(pair[0], null) orelse return error.TypeIsNotInLayoutsC;
        errdefer std.debug.print("{s}\n", .{pair[0]});
        try expectEqual(whole.bytes, @sizeOf(pair[1]));
        compared += 1;
        inline for (comptime std.meta.fieldNames(pair[1])) |field| {
            errdefer std.debug.print(".{s}\n", .{field});
            const there = ofC(pair[0], field) orelse return error.FieldIsNotInLayoutsC;
            try expectEqual(there.offset, @offsetOf(pair[1], field));
            try expectEqual(there.bytes, @sizeOf(@FieldType(pair[1], field)));
            compared += 1;
        }
    }
    try expectEqual(calm_zig_layout_count, compared);
}

test "the numbers are C's" {
    try expectEqual(calm_zig_classes_max, c.classes_max);
    try expectEqual(calm_zig_bounded_unit, c.bounded_unit);
    try expectEqual(calm_zig_ok, c.Code.ok);
    try expectEqual(calm_zig_no_memory, c.Code.no_memory);
    try expectEqual(calm_zig_mark, c.Code.mark);
}
