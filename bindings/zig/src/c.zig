//! The declarations of calmalloc.h and pool.h that the Zig types use. tests/layouts_test.zig compares the layouts with C's.

pub extern fn calm_version() [*:0]const u8;
pub extern fn calm_malloc(bytes: usize) ?*anyopaque;
pub extern fn calm_free(block: ?*anyopaque) void;
pub extern fn calm_trim() bool;
pub extern fn calm_page_out_cold(age_ms: u64) usize;
pub extern fn calm_idle() void;
pub extern fn calm_on_limit(callback: ?*const fn (bytes_over: usize) callconv(.c) void) void;
pub extern fn calm_committed() usize;
pub extern fn calm_charged() usize;
pub extern fn calm_stats_read(out: *Stats) void;
pub extern fn calm_verify() ?[*:0]const u8;
pub extern fn calm_option_get(name: [*:0]const u8, out: *u64) c_int;
pub extern fn calm_option_set(name: [*:0]const u8, value: u64) c_int;
pub extern fn calm_strerror(code: c_int) [*:0]const u8;

pub extern fn calm_zig_alloc(self: *anyopaque, len: usize) ?[*]u8;
pub extern fn calm_zig_alloc_aligned(self: *anyopaque, len: usize, alignment: u8) ?[*]u8;
pub extern fn calm_zig_resize(self: *anyopaque, block: [*]u8, len: usize, alignment: u8, new_len: usize) bool;
pub extern fn calm_zig_remap(self: *anyopaque, block: [*]u8, len: usize, alignment: u8, new_len: usize) ?[*]u8;
pub extern fn calm_zig_free(self: *anyopaque, block: [*]u8, len: usize, alignment: u8) void;

/// What each field means is in calmalloc.h.
pub const Stats = extern struct {
    allocated_bytes: usize,
    cached_bytes: usize,
    cached_limit_bytes: usize,
    active_bytes: usize,
    mapped_bytes: usize,
    reserved_bytes: usize,
    resident_bytes: usize,
    metadata_bytes: usize,
    dirty_bytes: usize,
    purged_bytes: usize,
    foreign_frees: u64,
    misuses: u64,
    failed_calls: u64,
    failed_os_calls: u64,
    threads: usize,
    cohorts: usize,
    profile_on: usize,
    profile_samples: u64,
    profile_samples_lost: u64,
    interned_sites: u64,
    retired_sites: u64,
    overflow_sites: u64,
    owned_bytes: usize,
};

pub const classes_max = 64;
pub const bounded_unit = 64;

pub const Code = struct {
    pub const ok = 0;
    pub const no_memory = 18;
    pub const mark = 26;
};

pub const calm_pool = opaque {};
pub const calm_bounded = opaque {};

pub const PoolConfig = extern struct {
    block_bytes: [*]const usize,
    percent: ?[*]const u32,
    classes: usize,
    bytes: usize,
    flags: c_uint,
    memory: ?*anyopaque,
    blocks: ?[*]const u32,
};

pub const PoolCost = extern struct {
    instructions: u32,
    lines: u32,
    branches: u32,
};

pub const PoolLimits = extern struct {
    bytes: usize,
    usable_bytes: usize,
    lost_bytes: usize,
    meta_bytes: usize,
    stride_bytes: [classes_max]usize,
    blocks: [classes_max]u32,
    remote_calls: [classes_max]u32,
    cost_code: c_int,
    alloc: PoolCost,
    alloc_aligned: PoolCost,
    free: PoolCost,
    free_remote: PoolCost,
    drain: PoolCost,
};

pub const PoolClassStats = extern struct {
    block_bytes: usize,
    stride_bytes: usize,
    blocks: u32,
    free_blocks: u32,
    least_free: u32,
    allocs: u64,
    remote_frees: u64,
};

pub const PoolStats = extern struct {
    classes: usize,
    failed: u64,
    misuses: u64,
    spills: u64,
    by_class: [classes_max]PoolClassStats,
};

pub const RegionState = extern struct {
    start: ?[*]u8,
    bytes: usize,
    used_bytes: usize,
    most_bytes: usize,
};

pub extern fn calm_pool_create(config: *const PoolConfig, out: *?*calm_pool) c_int;
pub extern fn calm_pool_bound(config: *const PoolConfig, out: *PoolLimits) c_int;
pub extern fn calm_pool_destroy(pool: ?*calm_pool) void;
pub extern fn calm_pool_alloc_aligned(pool: *calm_pool, bytes: usize, alignment: usize) ?[*]u8;
pub extern fn calm_pool_free(pool: *calm_pool, block: ?*anyopaque) c_int;
pub extern fn calm_pool_free_remote(pool: *calm_pool, block: ?*anyopaque) c_int;
pub extern fn calm_pool_drain(pool: *calm_pool) u32;
pub extern fn calm_pool_owns(pool: *const calm_pool, address: ?*const anyopaque) bool;
pub extern fn calm_pool_usable_size(pool: *const calm_pool, block: ?*const anyopaque) usize;
pub extern fn calm_pool_stats_read(pool: *const calm_pool, out: *PoolStats) void;
pub extern fn calm_region_init(region: *RegionState, memory: ?*anyopaque, bytes: usize) c_int;
pub extern fn calm_region_alloc(region: *RegionState, bytes: usize, alignment: usize) ?[*]u8;
pub extern fn calm_region_top(region: *const RegionState) usize;
pub extern fn calm_region_release(region: *RegionState, mark: usize) c_int;
pub extern fn calm_bounded_create(memory: ?*anyopaque, bytes: usize, out: *?*calm_bounded) c_int;
pub extern fn calm_bounded_alloc(heap: *calm_bounded, bytes: usize) ?[*]u8;
pub extern fn calm_bounded_free(heap: *calm_bounded, block: ?*anyopaque) c_int;
pub extern fn calm_bounded_usable_size(heap: *const calm_bounded, block: ?*const anyopaque) usize;
pub extern fn calm_bounded_capacity(live_bytes: usize, live_blocks: usize, largest: usize) usize;
