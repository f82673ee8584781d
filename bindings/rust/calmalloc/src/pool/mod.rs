//! Pools: memory that is claimed once, for programs that must say how long an allocation can take.
//!
//! A pool has declared block sizes. After it is made no call asks the kernel, takes a lock, faults a page in (unless the
//! pool is lazy) or loops over data. One thread at a time owns a pool and allocates from it; values may go to any thread
//! and be dropped there, and so their blocks come home by one atomic instruction.
//!
//! ```
//! use calmalloc::pool::PoolConfig;
//!
//! let config = PoolConfig::new(1 << 20).class(64, 50).class(1024, 50);
//! println!("an allocation takes at most {} instructions", config.limits()?.alloc.instructions);
//!
//! let pool = config.create()?;
//! let mut order = pool.boxed([0u8; 48])?;
//! order[0] = 7;
//! std::thread::scope(|scope| {
//!     scope.spawn(move || drop(order)); // the other thread gives the block back
//! });
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Who may do what, as types
//!
//! - [`Pool`] is the owner's: it may be moved to another thread, which owns it then, but not be shared.
//!
//!   ```compile_fail,E0277
//!   # use calmalloc::pool::PoolConfig;
//!   let pool = PoolConfig::new(1 << 20).class(64, 100).create().unwrap();
//!   std::thread::scope(|scope| scope.spawn(|| pool.boxed(1).is_ok())); // `Pool` is not `Sync`
//!   ```
//! - [`PoolBox`] is a value in a block. It may be sent wherever the value may, and frees its block where it is dropped:
//!   as the owner, or from afar. It borrows the pool, which therefore outlives it and stays with its thread meanwhile.
//!
//!   ```compile_fail,E0505
//!   # use calmalloc::pool::PoolConfig;
//!   let pool = PoolConfig::new(1 << 20).class(64, 100).create().unwrap();
//!   let value = pool.boxed(1).unwrap();
//!   drop(pool);
//!   assert_eq!(*value, 1);
//!   ```
//!
//!   Where threads are not scoped, let the pool live as long as the program: `Box::leak(Box::new(pool))`.
//! - [`PoolRemote`] is for any thread: it tells how full the pool is and takes blocks back that are no `PoolBox`.

mod boxed;
mod config;
mod error;

pub use boxed::{Exhausted, PoolBox};
pub use calmalloc_sys::calm_pool_class_stats as ClassStats;
pub use calmalloc_sys::calm_pool_cost as Cost;
pub use config::{PoolConfig, PoolLimits};
pub use error::PoolError;

use calmalloc_sys as sys;
use std::alloc::Layout;
use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU8, AtomicUsize, Ordering};

/// What any thread may use of a pool, and the thread that allocated from it last.
#[derive(Debug)]
struct Shared {
    raw: NonNull<sys::calm_pool>,
    owner: AtomicUsize,
}

// SAFETY: other threads call only the functions that any thread may call; `owner` is atomic.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

/// `sys::calm_pool_occupancy` as one reads it while the owner writes.
#[repr(C)]
struct Line {
    remote_backlog: AtomicU32,
    classes: u16,
    is_coded: u16,
    known: [AtomicU32; 14],
}
const _: () =
    assert!(std::mem::size_of::<Line>() == std::mem::size_of::<sys::calm_pool_occupancy>());

/// A number that no other living thread has: an address of its own.
#[inline]
fn this_thread() -> usize {
    thread_local! { static MARK: Cell<u8> = const { Cell::new(0) } }
    MARK.with(|mark| mark as *const Cell<u8> as usize)
}

impl Shared {
    /// Frees a block by the path of the calling thread.
    ///
    /// # Safety
    /// Nobody uses the block. If this is the thread that allocated last, the pool is not used by another one as its
    /// owner: a borrow of the pool is alive, so it cannot have moved.
    #[inline]
    unsafe fn free_from_here(&self, block: NonNull<u8>) -> i32 {
        let is_owner = self.owner.load(Ordering::Relaxed) == this_thread();
        // SAFETY: the caller vouches for the block; the pool lives as long as this.
        unsafe {
            if is_owner {
                sys::calm_pool_free(self.raw.as_ptr(), block.as_ptr().cast())
            } else {
                sys::calm_pool_free_remote(self.raw.as_ptr(), block.as_ptr().cast())
            }
        }
    }
}

/// A pool; the thread that has it is its owner. See [the module](self).
#[derive(Debug)]
pub struct Pool {
    shared: Shared,
    _owner_only: PhantomData<Cell<()>>,
}

impl Pool {
    fn from_raw(raw: NonNull<sys::calm_pool>) -> Self {
        let owner = AtomicUsize::new(this_thread());
        Self {
            shared: Shared { raw, owner },
            _owner_only: PhantomData,
        }
    }

    fn raw(&self) -> *mut sys::calm_pool {
        self.shared.raw.as_ptr()
    }

    /// A block as large and as aligned as `layout` says; `None` when its class is exhausted or no class is so large.
    /// What is in it is not said. It is freed by [`Pool::free`] or [`PoolRemote::free`], or with the pool.
    #[inline]
    pub fn alloc(&self, layout: Layout) -> Option<NonNull<u8>> {
        let (size, align, here) = (layout.size(), layout.align(), this_thread());
        if self.shared.owner.load(Ordering::Relaxed) != here {
            self.shared.owner.store(here, Ordering::Relaxed);
        }
        // SAFETY: this is the owner's thread, as a pool is not Sync. Blocks of 8 bytes and more are aligned to 8,
        // smaller ones to their size.
        let block = unsafe {
            if align <= 8 && size >= align {
                sys::calm_pool_alloc(self.raw(), size)
            } else {
                sys::calm_pool_alloc_aligned(self.raw(), size, align)
            }
        };
        NonNull::new(block.cast())
    }

    /// Frees a block; an error, and nothing happened, for what is no live block of this pool.
    ///
    /// ```
    /// use calmalloc::pool::{PoolConfig, PoolError};
    /// use std::alloc::Layout;
    ///
    /// let pool = PoolConfig::new(1 << 16).class(64, 100).create()?;
    /// let block = pool.alloc(Layout::new::<[u64; 8]>()).expect("there are free ones");
    /// // SAFETY: nobody uses the block.
    /// unsafe {
    ///     assert_eq!(pool.free(block), Ok(()));
    ///     assert_eq!(pool.free(block), Err(PoolError::DoubleFree));
    /// }
    /// # Ok::<(), PoolError>(())
    /// ```
    ///
    /// # Safety
    /// Nobody uses the block any more, and no [`PoolBox`] has it.
    pub unsafe fn free(&self, block: NonNull<u8>) -> Result<(), PoolError> {
        // SAFETY: this is the owner's thread; the caller vouches for the block.
        PoolError::check(unsafe { sys::calm_pool_free(self.raw(), block.as_ptr().cast()) })
    }

    /// Takes back what other threads freed, a bounded number of the next class in turn, and says how many. For idle
    /// moments; allocating does it by itself, of the class it allocates from.
    pub fn drain(&self) -> u32 {
        // SAFETY: this is the owner's thread.
        unsafe { sys::calm_pool_drain(self.raw()) }
    }

    /// What any thread may use of the pool.
    pub fn remote(&self) -> PoolRemote<'_> {
        PoolRemote(&self.shared)
    }

    /// What happened so far. Costs a loop over the classes.
    pub fn stats(&self) -> PoolStats {
        let mut out = std::mem::MaybeUninit::<sys::calm_pool_stats>::zeroed();
        // SAFETY: this is the owner's thread. The function fills the struct, of which zeros are a value.
        PoolStats(unsafe {
            sys::calm_pool_stats_read(self.raw(), out.as_mut_ptr());
            out.assume_init()
        })
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: nobody else has the pool: boxes and remote handles borrow it.
        unsafe { sys::calm_pool_destroy(self.raw()) }
    }
}

/// What any thread may use of a pool, while its owner works with it.
///
/// ```
/// use calmalloc::pool::PoolConfig;
///
/// let pool = PoolConfig::new(1 << 20).class(256, 100).create()?;
/// let remote = pool.remote();
/// let all = remote.free_blocks(0);
/// let held = pool.boxed([1u8; 200])?;
/// std::thread::scope(|scope| {
///     scope.spawn(move || assert_eq!(remote.free_blocks(0), all - 1));
/// });
/// drop(held);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct PoolRemote<'p>(&'p Shared);

impl PoolRemote<'_> {
    /// Frees a block from any thread, by one atomic instruction. The owner meets it when it allocates or drains.
    ///
    /// # Safety
    /// Nobody uses the block any more, and no [`PoolBox`] has it.
    pub unsafe fn free(&self, block: NonNull<u8>) -> Result<(), PoolError> {
        // SAFETY: any thread may call this; the caller vouches for the block.
        PoolError::check(unsafe {
            sys::calm_pool_free_remote(self.0.raw.as_ptr(), block.as_ptr().cast())
        })
    }

    /// Whether an address lies where the pool has its blocks.
    pub fn owns(&self, address: *const u8) -> bool {
        // SAFETY: any thread may call this with any address.
        unsafe { sys::calm_pool_owns(self.0.raw.as_ptr(), address.cast()) }
    }

    /// The bytes of a live block that may be used; 0 for an address that is none.
    pub fn usable_size(&self, block: *const u8) -> usize {
        // SAFETY: any thread may call this with any address.
        unsafe { sys::calm_pool_usable_size(self.0.raw.as_ptr(), block.cast()) }
    }

    fn line(&self) -> &Line {
        // SAFETY: any thread may call this; the line lives as long as the pool, and `Line` has its layout.
        unsafe { &*sys::calm_pool_watch(self.0.raw.as_ptr()).cast() }
    }

    /// How many classes the pool has.
    pub fn classes(&self) -> usize {
        usize::from(self.line().classes)
    }

    /// Bytes in free blocks, as the owner knows: never more than there are.
    pub fn free_bytes(&self) -> u64 {
        // SAFETY: any thread may call this; the line is the pool's own.
        unsafe { sys::calm_pool_watch_bytes(sys::calm_pool_watch(self.0.raw.as_ptr())) }
    }

    /// Blocks that other threads freed and the owner had not met yet, as of the last look at all of them.
    pub fn backlog(&self) -> u32 {
        self.line().remote_backlog.load(Ordering::Relaxed)
    }

    /// Free blocks of a class, as the owner knows. In a pool of more than 14 classes a power of two that is at most
    /// that number and more than half of it, up to 16384. 0 past the last class.
    pub fn free_blocks(&self, class: usize) -> u32 {
        let line = self.line();
        if class >= self.classes() {
            return 0;
        }
        if line.is_coded == 0 {
            return line.known[class].load(Ordering::Relaxed);
        }
        let codes: *const AtomicU8 = line.known.as_ptr().cast();
        // SAFETY: there are 56 bytes of two classes each, and no pool has more than 64 classes.
        let pair = unsafe { (*codes.add(class / 2)).load(Ordering::Relaxed) };
        match pair >> (class % 2 * 4) & 15 {
            0 => 0,
            code => 1 << (code - 1),
        }
    }
}

/// What happened in a pool since it was made.
#[derive(Debug, Clone, Copy)]
pub struct PoolStats(sys::calm_pool_stats);

impl PoolStats {
    /// Requests that found no block.
    pub fn failed(&self) -> u64 {
        self.0.failed
    }

    /// Frees that were refused, of all threads.
    pub fn misuses(&self) -> u64 {
        self.0.misuses
    }

    /// Requests that the next larger class served.
    pub fn spills(&self) -> u64 {
        self.0.spills
    }

    /// What happened in each class.
    pub fn classes(&self) -> &[ClassStats] {
        &self.0.by_class[..self.0.classes]
    }
}
