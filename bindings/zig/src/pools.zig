//! Pools, regions and bounded heaps as Zig types, each with an `Allocator` face. What a call may cost, and who may call
//! it, is in pool.h of the C library; docs/pool.md says how to use them.

const std = @import("std");
const c = @import("c.zig");
const Allocator = std.mem.Allocator;
const Alignment = std.mem.Alignment;

/// A configuration that cannot be, or memory that is not there. `calm_strerror` has a sentence for each code.
pub const Error = error{ BadConfiguration, OutOfMemory, WrongMark };

fn check(code: c_int) Error!void {
    switch (code) {
        c.Code.ok => {},
        c.Code.no_memory => return error.OutOfMemory,
        c.Code.mark => return error.WrongMark,
        else => return error.BadConfiguration,
    }
}

/// A free that the pool refused is a mistake of the program.
fn require(code: c_int) void {
    if (code != 0) std.debug.panic("calmalloc: free in a pool: {s}", .{sentence(code)});
}

/// What a code says, of functions of the C header.
pub fn sentence(code: c_int) []const u8 {
    return std.mem.span(c.calm_strerror(code));
}

/// Memory claimed once, declared block sizes, a stated worst case. One thread owns it; any thread may free into it.
pub const Pool = struct {
    pool: *c.calm_pool,

    pub const Class = struct {
        /// Of a block.
        bytes: usize,
        /// Of the pool's bytes; those of all classes sum to 100. 0: `blocks` says.
        percent: u32 = 0,
        /// How many it has. Of all classes of a pool, or of none.
        blocks: u32 = 0,
    };

    pub const Config = struct {
        /// By size, ascending.
        classes: []const Class,
        /// Of the whole pool, bookkeeping included. 0: what the classes' `blocks` need.
        bytes: usize = 0,
        /// `CALM_POOL_` flags of the C header.
        flags: c_uint = 0,
        /// Where the pool is to live, aligned to 64; null: it is mapped.
        memory: ?[*]align(64) u8 = null,
    };

    /// What C is told of a configuration.
    const Told = struct {
        sizes: [c.classes_max]usize = undefined,
        shares: [c.classes_max]u32 = undefined,
        blocks: [c.classes_max]u32 = undefined,
        has_shares: bool = false,
        has_blocks: bool = false,

        fn of(config: Config) Error!Told {
            var told: Told = .{};
            if (config.classes.len > told.sizes.len) return error.BadConfiguration;
            for (config.classes, 0..) |class, i| {
                told.sizes[i] = class.bytes;
                told.shares[i] = class.percent;
                told.blocks[i] = class.blocks;
                told.has_shares = told.has_shares or class.percent != 0;
                told.has_blocks = told.has_blocks or class.blocks != 0;
            }
            return told;
        }

        fn raw(told: *const Told, config: Config) c.PoolConfig {
            return .{
                .block_bytes = &told.sizes,
                .percent = if (told.has_shares or !told.has_blocks) &told.shares else null,
                .classes = config.classes.len,
                .bytes = config.bytes,
                .flags = config.flags,
                .memory = config.memory,
                .blocks = if (told.has_blocks) &told.blocks else null,
            };
        }
    };

    /// Makes a pool, which the calling thread owns.
    pub fn init(config: Config) Error!Pool {
        const told = try Told.of(config);
        var pool: ?*c.calm_pool = null;
        try check(c.calm_pool_create(&told.raw(config), &pool));
        return .{ .pool = pool.? };
    }

    /// What a pool of the configuration holds and what its operations can cost; makes none. `cost_code` is not 0 where
    /// nobody computed the costs for this build: `python3 tools/bound --stamp PROGRAM` does.
    pub fn limits(config: Config) Error!c.PoolLimits {
        const told = try Told.of(config);
        var out: c.PoolLimits = undefined;
        try check(c.calm_pool_bound(&told.raw(config), &out));
        return out;
    }

    /// Ends the pool and all its blocks. No thread may be inside a call on it.
    pub fn deinit(self: *Pool) void {
        c.calm_pool_destroy(self.pool);
        self.* = undefined;
    }

    /// For the owner. Valid until `deinit`.
    pub fn allocator(self: Pool) Allocator {
        return .{ .ptr = @ptrCast(self.pool), .vtable = &owner_vtable };
    }

    /// For other threads, which free and do not allocate: `alloc` fails always.
    pub fn remote(self: Pool) Allocator {
        return .{ .ptr = @ptrCast(self.pool), .vtable = &remote_vtable };
    }

    pub fn owns(self: Pool, address: *const anyopaque) bool {
        return c.calm_pool_owns(self.pool, address);
    }

    /// Takes back frees of other threads, some; how many. Owner only, for idle moments.
    pub fn drain(self: Pool) u32 {
        return c.calm_pool_drain(self.pool);
    }

    /// What happened in each class since `init`. Owner only.
    pub fn stats(self: Pool) c.PoolStats {
        var out: c.PoolStats = undefined;
        c.calm_pool_stats_read(self.pool, &out);
        return out;
    }

    const owner_vtable: Allocator.VTable = .{ .alloc = alloc, .resize = resize, .remap = remap, .free = free };
    const remote_vtable: Allocator.VTable = .{
        .alloc = allocNothing,
        .resize = resize,
        .remap = remap,
        .free = freeRemote,
    };

    fn from(self: *anyopaque) *c.calm_pool {
        return @ptrCast(self);
    }

    fn alloc(self: *anyopaque, len: usize, alignment: Alignment, _: usize) ?[*]u8 {
        return c.calm_pool_alloc_aligned(from(self), len, alignment.toByteUnits());
    }

    fn allocNothing(_: *anyopaque, _: usize, _: Alignment, _: usize) ?[*]u8 {
        return null;
    }

    fn resize(self: *anyopaque, memory: []u8, _: Alignment, new_len: usize, _: usize) bool {
        return new_len <= c.calm_pool_usable_size(from(self), memory.ptr);
    }

    fn remap(self: *anyopaque, memory: []u8, alignment: Alignment, new_len: usize, address: usize) ?[*]u8 {
        return if (resize(self, memory, alignment, new_len, address)) memory.ptr else null;
    }

    fn free(self: *anyopaque, memory: []u8, _: Alignment, _: usize) void {
        require(c.calm_pool_free(from(self), memory.ptr));
    }

    fn freeRemote(self: *anyopaque, memory: []u8, _: Alignment, _: usize) void {
        require(c.calm_pool_free_remote(from(self), memory.ptr));
    }
};

/// Memory for phases: blocks are taken one after the other and given back together, down to a mark. One thread at a
/// time.
pub const Region = struct {
    region: c.RegionState,

    pub const Mark = usize;

    pub fn init(memory: []u8) Error!Region {
        var self: Region = undefined;
        try check(c.calm_region_init(&self.region, memory.ptr, memory.len));
        return self;
    }

    pub fn mark(self: *const Region) Mark {
        return c.calm_region_top(&self.region);
    }

    /// Gives back all that was taken since. error.WrongMark: the region stands below it already.
    pub fn release(self: *Region, to: Mark) Error!void {
        return check(c.calm_region_release(&self.region, to));
    }

    /// `free` does nothing.
    pub fn allocator(self: *Region) Allocator {
        return .{ .ptr = self, .vtable = &vtable };
    }

    const vtable: Allocator.VTable = .{
        .alloc = alloc,
        .resize = Allocator.noResize,
        .remap = Allocator.noRemap,
        .free = Allocator.noFree,
    };

    fn alloc(self: *anyopaque, len: usize, alignment: Alignment, _: usize) ?[*]u8 {
        const region: *Region = @ptrCast(@alignCast(self));
        return c.calm_region_alloc(&region.region, len, alignment.toByteUnits());
    }
};

/// A heap of bounded memory and constant time, for sizes that cannot be declared. One thread at a time.
pub const Bounded = struct {
    heap: *c.calm_bounded,

    pub const memory_align = c.bounded_unit;

    /// The heap lives in `memory`.
    pub fn init(memory: []align(memory_align) u8) Error!Bounded {
        var heap: ?*c.calm_bounded = null;
        try check(c.calm_bounded_create(memory.ptr, memory.len, &heap));
        return .{ .heap = heap.? };
    }

    /// How many bytes `init` needs so that no request fails; null: more than there may be.
    pub fn capacity(live_bytes: usize, live_blocks: usize, largest: usize) ?usize {
        const bytes = c.calm_bounded_capacity(live_bytes, live_blocks, largest);
        return if (bytes == 0) null else bytes;
    }

    pub fn allocator(self: Bounded) Allocator {
        return .{ .ptr = @ptrCast(self.heap), .vtable = &vtable };
    }

    const vtable: Allocator.VTable = .{ .alloc = alloc, .resize = resize, .remap = remap, .free = free };

    fn from(self: *anyopaque) *c.calm_bounded {
        return @ptrCast(self);
    }

    /// Blocks are aligned to 64 and no further.
    fn alloc(self: *anyopaque, len: usize, alignment: Alignment, _: usize) ?[*]u8 {
        if (alignment.toByteUnits() > memory_align) return null;
        return c.calm_bounded_alloc(from(self), len);
    }

    fn resize(self: *anyopaque, memory: []u8, _: Alignment, new_len: usize, _: usize) bool {
        return new_len <= c.calm_bounded_usable_size(from(self), memory.ptr);
    }

    fn remap(self: *anyopaque, memory: []u8, alignment: Alignment, new_len: usize, address: usize) ?[*]u8 {
        return if (resize(self, memory, alignment, new_len, address)) memory.ptr else null;
    }

    fn free(self: *anyopaque, memory: []u8, _: Alignment, _: usize) void {
        require(c.calm_bounded_free(from(self), memory.ptr));
    }
};
