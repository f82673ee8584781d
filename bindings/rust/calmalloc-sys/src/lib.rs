//! The C functions of calmalloc, a memory allocator for Linux, compiled with this crate.
//!
//! The names and contracts are those of `calmalloc.h`, which the crate's `c` folder has. Most programs want the crate
//! `calmalloc`, which has the global allocator and safe functions.
//!
//! All functions may be called from any thread at any time, but not from a signal handler that interrupted one of
//! them. Sizes are bytes. A failed request returns null and sets `errno` to `ENOMEM`.
#![no_std]
#![allow(non_camel_case_types)]

mod pool;
pub use pool::*;

use core::ffi::{c_char, c_int, c_uint, c_void};

macro_rules! stats {
    ($($(#[$words:meta])* $name:ident: $kind:ty,)*) => {
        /// What the heap holds. Bytes unless said; `allocated_bytes <= active_bytes <= mapped_bytes`.
        #[repr(C)]
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct calm_stats {
            $($(#[$words])* pub $name: $kind,)*
        }

        impl calm_stats {
            /// The names of the fields, in order.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),*];
        }
    };
}

stats! {
    /// In live blocks, by their usable size, and in caches: see `cached_bytes`.
    allocated_bytes: usize,
    /// Of these, free blocks that wait in caches and in batches.
    cached_bytes: usize,
    /// What caches and batches may hold at most, as things are.
    cached_limit_bytes: usize,
    /// In slabs and large blocks, free parts of slabs included.
    active_bytes: usize,
    /// Of address space that is readable and writable.
    mapped_bytes: usize,
    /// Of address space that is reserved.
    reserved_bytes: usize,
    /// Of pages the kernel holds for the heap, metadata included, as the kernel counts it.
    resident_bytes: usize,
    /// Of the mapped bytes, bookkeeping.
    metadata_bytes: usize,
    /// In free spans that wait to be given back.
    dirty_bytes: usize,
    /// Given back since the start.
    purged_bytes: usize,
    /// Frees of pointers that were never the heap's.
    foreign_frees: u64,
    /// Double, interior and wrongly sized frees that were counted, not fatal.
    misuses: u64,
    /// Requests that returned null.
    failed_calls: u64,
    /// Kernel calls that failed.
    failed_os_calls: u64,
    /// Threads that have a cache of their own.
    threads: usize,
    /// Cohorts in use.
    cohorts: usize,
    /// 1 while requests are sampled, else 0.
    profile_on: usize,
    /// Samples taken so far.
    profile_samples: u64,
    /// Samples for which the profiler's tables had no room.
    profile_samples_lost: u64,
    /// With `sites=intern`, else 0: sites that have, or had, a cohort of their own.
    interned_sites: u64,
    /// Of these, sites whose module was unloaded.
    retired_sites: u64,
    /// Sites that share the overflow cohort.
    overflow_sites: u64,
    /// Of address space that is some cohort's for ever.
    owned_bytes: usize,
}

/// What the blocks of one cohort hold: small blocks that were asked for at the same sites.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct calm_cohort {
    /// Its number, from 0.
    pub cohort: c_uint,
    /// Not of sites: the blocks that the profiler sampled, from everywhere.
    pub is_sampled: bool,
    /// Live, or in caches: see `cached_blocks`.
    pub allocated_blocks: usize,
    /// Of these, by usable size.
    pub allocated_bytes: usize,
    /// Free blocks that wait in caches and in batches for this cohort.
    pub cached_blocks: usize,
    /// Bytes of these.
    pub cached_bytes: usize,
    /// In slabs, their free parts included.
    pub active_bytes: usize,
}

extern "C" {
    /// The version of the library, "major.minor.patch".
    pub fn calm_version() -> *const c_char;

    /// Allocates `size` bytes, aligned to 16 when `size` > 8, else to 8.
    pub fn calm_malloc(size: usize) -> *mut c_void;
    /// As `calm_malloc(count * size)`, zeroed.
    pub fn calm_calloc(count: usize, size: usize) -> *mut c_void;
    /// Changes the size of `block`, in place where it can. Size 0 frees it.
    pub fn calm_realloc(block: *mut c_void, size: usize) -> *mut c_void;
    /// As `calm_realloc(block, count * size)`, with the overflow checked.
    pub fn calm_reallocarray(block: *mut c_void, count: usize, size: usize) -> *mut c_void;
    /// Allocates `size` bytes aligned to `alignment`, a power of two.
    pub fn calm_aligned_alloc(alignment: usize, size: usize) -> *mut c_void;
    /// Frees `block`; null is ignored.
    pub fn calm_free(block: *mut c_void);
    /// Frees `block`, promising that it was allocated with `size` bytes.
    pub fn calm_free_sized(block: *mut c_void, size: usize);
    /// As `calm_free_sized`, for a block from an aligned allocation.
    pub fn calm_free_aligned_sized(block: *mut c_void, alignment: usize, size: usize);
    /// How many bytes of `block` may be used; 0 for null or a foreign pointer.
    pub fn calm_usable_size(block: *const c_void) -> usize;
    /// The usable size that `calm_malloc(size)` would give, or 0.
    pub fn calm_good_size(size: usize) -> usize;

    /// As `calm_realloc`, of a block that was last asked for with `size` bytes; neither null nor to nothing.
    pub fn calm_adapter_realloc(block: *mut c_void, size: usize, new_size: usize) -> *mut c_void;
    /// Frees a block of which a container knows its size and its alignment, 1 to 16 when it asked for none.
    pub fn calm_adapter_free(block: *mut c_void, size: usize, alignment: usize);
    /// As `calm_adapter_free`, and finds a pointer to the inside of a block.
    pub fn calm_adapter_free_checked(block: *mut c_void, size: usize, alignment: usize);

    /// Gives free pages back to the kernel; whether there were any.
    pub fn calm_trim() -> bool;
    /// Whether moving `block` would help to empty its slab.
    pub fn calm_should_move(block: *const c_void) -> bool;
    /// Moves `block` where that would help; where it is now.
    pub fn calm_move(block: *mut c_void) -> *mut c_void;
    /// Sends memory of live blocks that lay untouched for so long to swap. Returns the bytes that left memory.
    pub fn calm_page_out_cold(age_ms: u64) -> usize;
    /// Says that the calling thread is about to sleep: its cache is emptied, and what is due goes back to the kernel.
    pub fn calm_idle();
    /// Has `callback` called when a request passes the soft limit, by how many bytes; `None`: no more.
    pub fn calm_on_limit(callback: Option<extern "C" fn(bytes_over: usize)>);
    /// Bytes that are readable and writable, as the kernel counts them.
    pub fn calm_committed() -> usize;
    /// Bytes that blocks and dirty free memory take, which the limits bound.
    pub fn calm_charged() -> usize;
    /// Fills `out`.
    pub fn calm_stats_read(out: *mut calm_stats);
    /// Fills `out` with at most `capacity` cohorts, the largest first. Returns how many there are.
    pub fn calm_cohorts_read(out: *mut calm_cohort, capacity: usize) -> usize;
    /// Writes statistics to a file descriptor as text. Returns 0 or an `errno` value.
    pub fn calm_stats_text(fd: c_int) -> c_int;
    /// Writes statistics to a file descriptor as one JSON object. Returns 0 or an `errno` value.
    pub fn calm_stats_json(fd: c_int) -> c_int;
    /// Writes which addresses asked for memory as one JSON object. Returns 0 or an `errno` value.
    pub fn calm_sites_json(fd: c_int) -> c_int;
    /// Checks the whole heap; null when all holds. Other threads must not allocate meanwhile.
    pub fn calm_verify() -> *const c_char;
    /// Reads an option. Returns 0 or `ENOENT`.
    pub fn calm_option_get(name: *const c_char, out: *mut u64) -> c_int;
    /// Sets an option. Returns 0, `ENOENT`, `EINVAL` or `EPERM`.
    pub fn calm_option_set(name: *const c_char, value: u64) -> c_int;

    /// Samples requests from now on. Returns 0, `EBUSY`, `EINVAL` or `ENOMEM`.
    pub fn calm_profile_start(bytes_a_sample: usize, seed: u64) -> c_int;
    /// Samples no more requests.
    pub fn calm_profile_stop();
    /// Writes what was sampled to a file descriptor. Returns 0, `EINVAL` or an `errno` value.
    pub fn calm_profile_dump(fd: c_int, format: *const c_char) -> c_int;
}
