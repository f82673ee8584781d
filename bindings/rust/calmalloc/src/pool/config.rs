//! What a pool shall be, and what it would be.

use super::{Cost, Pool, PoolError};
use calmalloc_sys as sys;
use std::ptr::{null, null_mut, NonNull};

/// What a pool shall be: how large, with which block sizes, and how its memory is claimed.
///
/// ```
/// use calmalloc::pool::{PoolConfig, PoolError};
///
/// let pool = PoolConfig::new(8 << 20).class(64, 30).class(512, 70).create()?;
/// assert_eq!(pool.stats().classes()[1].block_bytes, 512);
///
/// let wrong = PoolConfig::new(8 << 20).class(64, 30).class(512, 60);
/// assert_eq!(wrong.create().unwrap_err(), PoolError::Shares);
/// assert_eq!(PoolError::Shares.to_string(), "the shares do not sum to 100 percent");
/// # Ok::<(), PoolError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a configuration is nothing before `create`"]
pub struct PoolConfig {
    block_bytes: Vec<usize>,
    percent: Vec<u32>,
    blocks: Vec<u32>,
    bytes: usize,
    flags: u32,
}

impl PoolConfig {
    /// A pool that takes `bytes`, bookkeeping included, and has no class yet. 0: as many as the classes added by
    /// [`blocks`](Self::blocks) need.
    pub fn new(bytes: usize) -> Self {
        Self {
            block_bytes: Vec::new(),
            percent: Vec::new(),
            blocks: Vec::new(),
            bytes,
            flags: 0,
        }
    }

    /// Adds a class: blocks of `block_bytes`, more than the class before has, that get `percent` of the pool. All
    /// classes' shares sum to 100. A multiple of 16 where values need an alignment of 16, and so on up to 4096.
    pub fn class(mut self, block_bytes: usize, percent: u32) -> Self {
        self.block_bytes.push(block_bytes);
        self.percent.push(percent);
        self
    }

    /// Adds a class of `count` blocks of `block_bytes`. All classes of a pool are added this way, or none is.
    ///
    /// ```
    /// # use calmalloc::pool::{PoolConfig, PoolError};
    /// let limits = PoolConfig::new(0).blocks(64, 1000).blocks(512, 20).limits()?;
    /// assert_eq!(limits.blocks, [1000, 20]);
    /// # Ok::<(), PoolError>(())
    /// ```
    pub fn blocks(mut self, block_bytes: usize, count: u32) -> Self {
        self.block_bytes.push(block_bytes);
        self.blocks.push(count);
        self
    }

    fn with(mut self, flag: u32) -> Self {
        self.flags |= flag;
        self
    }

    /// Pages come when first touched; otherwise all are there from the start.
    pub fn lazy(self) -> Self {
        self.with(sys::CALM_POOL_LAZY)
    }

    /// Pages are locked into memory.
    pub fn locked(self) -> Self {
        self.with(sys::CALM_POOL_LOCK)
    }

    /// The mapping asks for huge pages.
    pub fn huge(self) -> Self {
        self.with(sys::CALM_POOL_HUGE)
    }

    /// An exhausted class lends from the next larger one, one step up.
    pub fn spill(self) -> Self {
        self.with(sys::CALM_POOL_SPILL)
    }

    fn raw(&self) -> sys::calm_pool_config {
        sys::calm_pool_config {
            block_bytes: self.block_bytes.as_ptr(),
            percent: if self.blocks.is_empty() {
                self.percent.as_ptr()
            } else {
                pointer_or_null(&self.percent)
            },
            classes: self.block_bytes.len(),
            bytes: self.bytes,
            flags: self.flags,
            memory: null_mut(),
            blocks: pointer_or_null(&self.blocks),
        }
    }

    /// What the pool would hold and what its operations can cost at most, on this build. Makes no pool.
    pub fn limits(&self) -> Result<PoolLimits, PoolError> {
        let mut out = std::mem::MaybeUninit::<sys::calm_pool_limits>::zeroed();
        // SAFETY: the configuration's lists live; the function fills the struct, of which zeros are a value.
        let limits = unsafe {
            PoolError::check(sys::calm_pool_bound(&self.raw(), out.as_mut_ptr()))?;
            out.assume_init()
        };
        let classes = self.block_bytes.len();
        Ok(PoolLimits {
            bytes: limits.bytes,
            usable_bytes: limits.usable_bytes,
            bookkeeping_bytes: limits.meta_bytes,
            blocks: limits.blocks[..classes].to_vec(),
            stride_bytes: limits.stride_bytes[..classes].to_vec(),
            remote_calls: limits.remote_calls[..classes].to_vec(),
            costs: PoolError::check(limits.cost_code),
            alloc: limits.alloc,
            alloc_aligned: limits.alloc_aligned,
            free: limits.free,
            free_remote: limits.free_remote,
            drain: limits.drain,
        })
    }

    /// Makes the pool; the calling thread owns it. The kernel maps and fills its memory: not for the time that counts.
    pub fn create(&self) -> Result<Pool, PoolError> {
        let mut out = null_mut();
        // SAFETY: the configuration's lists live, and are not needed afterwards.
        PoolError::check(unsafe { sys::calm_pool_create(&self.raw(), &mut out) })?;
        NonNull::new(out).map(Pool::from_raw).ok_or(PoolError::Null)
    }
}

fn pointer_or_null(list: &[u32]) -> *const u32 {
    if list.is_empty() {
        null()
    } else {
        list.as_ptr()
    }
}

/// What a pool of a configuration holds, and the most that one call of each operation can take.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolLimits {
    /// The whole pool.
    pub bytes: usize,
    /// What blocks of the declared sizes hold together.
    pub usable_bytes: usize,
    /// Of the rest, bookkeeping.
    pub bookkeeping_bytes: usize,
    /// How many blocks each class has.
    pub blocks: Vec<u32>,
    /// What a block of each class takes.
    pub stride_bytes: Vec<usize>,
    /// Requests of each class until one has a block that another thread gave back, and three more for each thread that
    /// gives one back meanwhile.
    pub remote_calls: Vec<u32>,
    /// Whether the costs below are those of this build: [`PoolError::Unchecked`], and they are 0, where nobody computed
    /// them. The build does where it finds Python and objdump; a finished program may be given to
    /// `tools/bound --stamp`.
    pub costs: Result<(), PoolError>,
    /// Of [`Pool::boxed`] and [`Pool::alloc`] up to an alignment of 8.
    pub alloc: Cost,
    /// Of these with a larger alignment.
    pub alloc_aligned: Cost,
    /// Of a drop in the owner's thread.
    pub free: Cost,
    /// Of a drop in another thread.
    pub free_remote: Cost,
    /// Of [`Pool::drain`].
    pub drain: Cost,
}
