//! The functions of `calmalloc/pool.h`: pools, regions and bounded heaps. They touch no heap and no `errno`.

use core::ffi::{c_char, c_int, c_uint, c_void};

/// Classes that a pool may have.
pub const CALM_POOL_CLASSES_MAX: usize = 64;
/// Bytes that a block of a pool may have.
pub const CALM_POOL_BLOCK_MAX: usize = 1 << 20;
/// The largest alignment of a block.
pub const CALM_POOL_ALIGN_MAX: usize = 4096;

/// Pages come when first touched.
pub const CALM_POOL_LAZY: c_uint = 1;
/// Pages are locked into memory.
pub const CALM_POOL_LOCK: c_uint = 2;
/// The mapping asks for huge pages.
pub const CALM_POOL_HUGE: c_uint = 4;
/// An exhausted class lends from the next larger one.
pub const CALM_POOL_SPILL: c_uint = 8;

macro_rules! errors {
    ($($name:ident,)*) => {
        /// The codes of `enum calm_error` by name, in order: a name's place is its number.
        pub const CALM_ERRORS: &[&str] = &[$(stringify!($name)),*];
        #[allow(clippy::upper_case_acronyms)]
        #[repr(i32)]
        enum Numbers { $($name),* }
        $(
            /// A code of `enum calm_error`; `calm_strerror` has its sentence.
            pub const $name: c_int = Numbers::$name as c_int;
        )*
    };
}

errors! {
    CALM_OK,
    CALM_ENULL,
    CALM_ECLASSES,
    CALM_EBLOCK_ZERO,
    CALM_EBLOCK_LARGE,
    CALM_EORDER,
    CALM_ESHARE_ZERO,
    CALM_ESHARES,
    CALM_ESHARE_SMALL,
    CALM_EBLOCKS,
    CALM_EBYTES_ZERO,
    CALM_EBYTES_SMALL,
    CALM_EBYTES_LARGE,
    CALM_EFLAGS,
    CALM_EFLAGS_LAZY,
    CALM_EFLAGS_MEMORY,
    CALM_EMEMORY_ALIGN,
    CALM_EMEMORY_END,
    CALM_ENOMEM,
    CALM_ELOCK,
    CALM_EHUGE,
    CALM_EPOOLS,
    CALM_EFOREIGN,
    CALM_EINTERIOR,
    CALM_EMISALIGNED,
    CALM_EDOUBLE,
    CALM_EMARK,
    CALM_EBLOCKS_ZERO,
    CALM_EBOTH,
    CALM_EUNCHECKED,
}

/// A pool; only pointers to it exist here.
#[repr(C)]
pub struct calm_pool {
    _private: [u8; 0],
}

/// A bounded heap; only pointers to it exist here.
#[repr(C)]
pub struct calm_bounded {
    _private: [u8; 0],
}

/// What a pool shall be.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct calm_pool_config {
    /// Ascending block sizes, `classes` of them.
    pub block_bytes: *const usize,
    /// The share of `bytes` that each class gets; they sum to 100. Null: `blocks` says.
    pub percent: *const u32,
    /// How many of each.
    pub classes: usize,
    /// Of the whole pool, bookkeeping included; 0 with `blocks`: what they need.
    pub bytes: usize,
    /// `CALM_POOL_` flags.
    pub flags: c_uint,
    /// Null: mapped; else the pool lives inside these `bytes`.
    pub memory: *mut c_void,
    /// How many blocks each class has. Null: `percent` says.
    pub blocks: *const u32,
}

/// One cache line a pool that any thread may read at any time, each field atomically.
#[repr(C)]
#[derive(Debug)]
pub struct calm_pool_occupancy {
    /// Remote frees that the last look at each class found, summed; atomic.
    pub remote_backlog: u32,
    /// How many classes; constant.
    pub classes: u16,
    /// 0: `known` is free blocks by class, 32 bits each; 1: 4 bits a class, low half first. Constant.
    pub is_coded: u16,
    /// Free blocks as `is_coded` says; atomic.
    pub known: [u32; 14],
}

/// What happened in one class of a pool.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct calm_pool_class_stats {
    /// Declared.
    pub block_bytes: usize,
    /// What a block takes.
    pub stride_bytes: usize,
    /// The class has.
    pub blocks: u32,
    /// That the owner knows of.
    pub free_blocks: u32,
    /// The fewest that ever were.
    pub least_free: u32,
    /// Blocks handed out.
    pub allocs: u64,
    /// Taken back from other threads.
    pub remote_frees: u64,
}

/// What happened in a pool since it was made.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct calm_pool_stats {
    /// How many entries of `by_class` there are.
    pub classes: usize,
    /// Requests that were answered with null.
    pub failed: u64,
    /// Frees that were answered with a code, of all threads.
    pub misuses: u64,
    /// Requests that the next larger class served.
    pub spills: u64,
    /// By class.
    pub by_class: [calm_pool_class_stats; CALM_POOL_CLASSES_MAX],
}

/// The most that one call of an operation can take.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct calm_pool_cost {
    /// Executed.
    pub instructions: u32,
    /// Distinct cache lines of 64 bytes, read or written.
    pub lines: u32,
    /// Executed.
    pub branches: u32,
}

/// What a pool of a configuration holds, and what its operations can cost.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct calm_pool_limits {
    /// The whole pool.
    pub bytes: usize,
    /// What blocks of the declared sizes hold together.
    pub usable_bytes: usize,
    /// The rest.
    pub lost_bytes: usize,
    /// Of the lost ones, bookkeeping.
    pub meta_bytes: usize,
    /// By class, what a block takes.
    pub stride_bytes: [usize; CALM_POOL_CLASSES_MAX],
    /// By class, how many there are.
    pub blocks: [u32; CALM_POOL_CLASSES_MAX],
    /// By class, requests until one has a block that another thread freed.
    pub remote_calls: [u32; CALM_POOL_CLASSES_MAX],
    /// 0, or `CALM_EUNCHECKED`: the costs are 0, as nobody computed them for this build.
    pub cost_code: c_int,
    /// Of `calm_pool_alloc`.
    pub alloc: calm_pool_cost,
    /// Of `calm_pool_alloc_aligned`.
    pub alloc_aligned: calm_pool_cost,
    /// Of `calm_pool_free`.
    pub free: calm_pool_cost,
    /// Of `calm_pool_free_remote`.
    pub free_remote: calm_pool_cost,
    /// Of `calm_pool_drain`.
    pub drain: calm_pool_cost,
}

/// Memory for phases; its fields are the functions'.
#[repr(C)]
#[derive(Debug)]
pub struct calm_region {
    /// Where it begins.
    pub start: *mut c_char,
    /// How large it is.
    pub bytes: usize,
    /// Taken.
    pub used_bytes: usize,
    /// Taken at any time since init.
    pub most_bytes: usize,
}

extern "C" {
    /// One sentence for a code, a static string; also for a number that is none.
    pub fn calm_strerror(code: c_int) -> *const c_char;

    /// Makes a pool and gives it to the calling thread. Returns 0 and the pool, or a code.
    pub fn calm_pool_create(config: *const calm_pool_config, out: *mut *mut calm_pool) -> c_int;
    /// As `calm_pool_create` with mapped memory and no flags.
    pub fn calm_pool_init(
        out: *mut *mut calm_pool,
        block_bytes: *const usize,
        classes: usize,
        percent: *const u32,
        bytes: usize,
    ) -> c_int;
    /// Ends the pool. No other thread may know it.
    pub fn calm_pool_destroy(pool: *mut calm_pool);
    /// Allocates a block of the smallest class that holds `bytes`, or null. Owner only.
    pub fn calm_pool_alloc(pool: *mut calm_pool, bytes: usize) -> *mut c_void;
    /// As `calm_pool_alloc`, of the smallest class that also has the alignment.
    pub fn calm_pool_alloc_aligned(pool: *mut calm_pool, bytes: usize, align: usize)
        -> *mut c_void;
    /// Frees a block. Returns 0, or a code, and nothing is changed. Owner only.
    pub fn calm_pool_free(pool: *mut calm_pool, block: *mut c_void) -> c_int;
    /// As `calm_pool_free`, from any thread.
    pub fn calm_pool_free_remote(pool: *mut calm_pool, block: *mut c_void) -> c_int;
    /// Takes back remote frees of the next class in turn; how many. Owner only.
    pub fn calm_pool_drain(pool: *mut calm_pool) -> u32;
    /// Whether an address lies where the pool has its blocks. Any thread.
    pub fn calm_pool_owns(pool: *const calm_pool, address: *const c_void) -> bool;
    /// The bytes of a live block that may be used, else 0. Any thread.
    pub fn calm_pool_usable_size(pool: *const calm_pool, block: *const c_void) -> usize;
    /// The pool's line, valid until destroy. Any thread.
    pub fn calm_pool_watch(pool: *const calm_pool) -> *const calm_pool_occupancy;
    /// Bytes in the free blocks of the pool whose own line this is. Any thread.
    pub fn calm_pool_watch_bytes(watch: *const calm_pool_occupancy) -> u64;
    /// Fills `out`. Owner only.
    pub fn calm_pool_stats_read(pool: *const calm_pool, out: *mut calm_pool_stats);
    /// What a pool of this configuration would be. Returns 0, or the code that `calm_pool_create` would.
    pub fn calm_pool_bound(config: *const calm_pool_config, out: *mut calm_pool_limits) -> c_int;

    /// Begins a region in `memory`. Returns 0 or a code.
    pub fn calm_region_init(region: *mut calm_region, memory: *mut c_void, bytes: usize) -> c_int;
    /// Takes `bytes`, aligned to `align`, or null. One thread at a time.
    pub fn calm_region_alloc(region: *mut calm_region, bytes: usize, align: usize) -> *mut c_void;
    /// Where the region stands.
    pub fn calm_region_top(region: *const calm_region) -> usize;
    /// Gives back all that was taken since `mark`. Returns 0 or `CALM_EMARK`.
    pub fn calm_region_release(region: *mut calm_region, mark: usize) -> c_int;

    /// Makes a bounded heap inside `bytes` of `memory`, aligned to 64. Returns 0 or a code.
    pub fn calm_bounded_create(
        memory: *mut c_void,
        bytes: usize,
        out: *mut *mut calm_bounded,
    ) -> c_int;
    /// Allocates at least `bytes`, or null. One thread at a time.
    pub fn calm_bounded_alloc(heap: *mut calm_bounded, bytes: usize) -> *mut c_void;
    /// Frees a block. Returns 0, or a code, and nothing is changed.
    pub fn calm_bounded_free(heap: *mut calm_bounded, block: *mut c_void) -> c_int;
    /// The bytes of a live block that may be used, else 0.
    pub fn calm_bounded_usable_size(heap: *const calm_bounded, block: *const c_void) -> usize;
    /// Bytes in free runs.
    pub fn calm_bounded_free_bytes(heap: *const calm_bounded) -> usize;
    /// How many bytes a heap needs so that no request within these limits fails; 0: above 1 GiB.
    pub fn calm_bounded_capacity(live_bytes: usize, live_blocks: usize, largest: usize) -> usize;
}
