//! calmalloc as the allocator of a Rust program.
//!
//! ```
//! #[global_allocator]
//! static ALLOC: calmalloc::CalMalloc = calmalloc::CalMalloc;
//!
//! fn main() {
//!     let squares: Vec<u64> = (0..1000).map(|n| n * n).collect();
//!     assert_eq!(squares[30], 900);
//!     assert!(calmalloc::stats().allocated_bytes >= 8000);
//! }
//! ```
//!
//! Linux on x86-64 and aarch64. The allocator is compiled from C; its names all begin with `calm_`, so the C library
//! keeps its `malloc` and C libraries in the same program do not notice.
//!
//! # What Rust's allocator knows
//!
//! A Rust container tells the size and the alignment on every free. Up to an alignment of 8, and up to 16 for more than
//! 8 bytes, a request goes to the same path as C's; a free of what the cache can take is one instruction shorter than
//! C's, because the size stands for one of the looks. The site of a request, by which calmalloc places it, is the code
//! that called Rust's allocation function: the adapter adds no stack frame.
//!
//! # Pools
//!
//! [`pool`] has memory that is claimed once, with a stated worst case for every call. It needs no global allocator.
//!
//! # Features
//!
//! - `profile`: [`profile`] samples who holds the heap.
//! - `checks`: a free also looks whether a block begins at the pointer.
//! - `assertions`: the allocator checks itself at every step. Slow.
//!
//! # Options
//!
//! The environment variable `CALM_OPTIONS` is read at the first allocation; [`option`] and [`set_option`] read and set
//! the same options later.

mod heap;
pub mod pool;
#[cfg(feature = "profile")]
pub mod profile;

pub use calmalloc_sys::calm_stats as Stats;
pub use heap::{
    charged, committed, idle, on_limit, option, page_out_cold, set_option, stats, trim, version,
    write_stats_json, OptionError,
};

use calmalloc_sys as sys;
use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_void;

/// The allocator, for `#[global_allocator]`. It has no state; all values are the same heap.
///
/// ```
/// use std::alloc::{GlobalAlloc, Layout};
///
/// let layout = Layout::from_size_align(100, 64)?;
/// // SAFETY: the size is not 0, and the block is freed with the layout it was allocated with.
/// unsafe {
///     let block = calmalloc::CalMalloc.alloc(layout);
///     assert_eq!(block as usize % 64, 0);
///     calmalloc::CalMalloc.dealloc(block, layout);
/// }
/// # Ok::<(), std::alloc::LayoutError>(())
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CalMalloc;

/// Blocks of more than this are whole 64 KiB units, and aligned so.
const LARGE_FROM: usize = 32 * 1024;

/// Whether every block of `size` is aligned to `align`, whoever asks.
#[inline(always)]
const fn is_plain(size: usize, align: usize) -> bool {
    align <= 8 || (align <= 16 && size > 8)
}

#[cold]
fn aligned(layout: Layout) -> *mut u8 {
    // SAFETY: a layout's alignment is a power of two; any size is accepted.
    unsafe { sys::calm_aligned_alloc(layout.align(), layout.size()).cast() }
}

/// A large block is fresh and zero, or cleared; what its alignment is shows.
#[cold]
fn aligned_zeroed(layout: Layout) -> *mut u8 {
    if layout.size() > LARGE_FROM {
        // SAFETY: any size is accepted.
        let block: *mut u8 = unsafe { sys::calm_calloc(1, layout.size()).cast() };
        if block as usize & (layout.align() - 1) == 0 {
            return block; // or null
        }
        // SAFETY: the block was just allocated and nobody else has it.
        unsafe { sys::calm_free(block.cast()) };
    }
    let block = aligned(layout);
    if !block.is_null() {
        // SAFETY: the block has the layout's size.
        unsafe { block.write_bytes(0, layout.size()) };
    }
    block
}

/// # Safety
/// As `GlobalAlloc::realloc`.
#[cold]
unsafe fn aligned_realloc(block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
    // SAFETY: the caller vouches for the block.
    let usable = unsafe { sys::calm_usable_size(block.cast()) };
    if new_size <= usable && new_size >= usable / 2 {
        return block;
    }
    // SAFETY: the caller vouches that the size, rounded up to the alignment, does not overflow.
    let wanted = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
    // SAFETY: the new size is not 0.
    let moved = unsafe { CalMalloc.alloc(wanted) };
    if !moved.is_null() {
        // SAFETY: both blocks are live, apart, and at least this large; the old one is given back as it came.
        unsafe {
            moved.copy_from_nonoverlapping(block, layout.size().min(new_size));
            CalMalloc.dealloc(block, layout);
        }
    }
    moved
}

// SAFETY: blocks are disjoint, as large and as aligned as asked for, and stay until freed; nothing here unwinds.
unsafe impl GlobalAlloc for CalMalloc {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_plain(layout.size(), layout.align()) {
            // SAFETY: any size is accepted.
            unsafe { sys::calm_malloc(layout.size()).cast() }
        } else {
            aligned(layout)
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let block: *mut c_void = block.cast();
        // SAFETY: the caller vouches that the block is ours, live, and of this layout.
        unsafe {
            if cfg!(feature = "checks") {
                sys::calm_adapter_free_checked(block, layout.size(), layout.align());
            } else {
                sys::calm_adapter_free(block, layout.size(), layout.align());
            }
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_plain(layout.size(), layout.align()) {
            // SAFETY: any size is accepted.
            unsafe { sys::calm_calloc(1, layout.size()).cast() }
        } else {
            aligned_zeroed(layout)
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if is_plain(new_size, layout.align()) {
            // SAFETY: the caller vouches that the block is ours, live and of this layout, and the new size not 0.
            unsafe {
                if cfg!(feature = "checks") {
                    sys::calm_realloc(block.cast(), new_size).cast()
                } else {
                    sys::calm_adapter_realloc(block.cast(), layout.size(), new_size).cast()
                }
            }
        } else {
            // SAFETY: the caller keeps the same contract.
            unsafe { aligned_realloc(block, layout, new_size) }
        }
    }
}
