//! Values in blocks of a pool.

use super::{Pool, Shared};
use std::alloc::Layout;
use std::marker::PhantomData;
use std::mem::{size_of, size_of_val, ManuallyDrop};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::{fmt, slice};

/// A value in a block of a pool, as `Box` is one on the heap. Dropping it drops the value and frees the block, on the
/// owner's thread as the owner, elsewhere by one atomic instruction.
///
/// ```
/// use calmalloc::pool::{PoolBox, PoolConfig};
/// use std::sync::mpsc::channel;
///
/// let pool = PoolConfig::new(1 << 20).class(32, 100).create()?;
/// let (to, from) = channel::<PoolBox<'_, String>>();
/// std::thread::scope(|scope| {
///     scope.spawn(move || assert_eq!(from.iter().map(|name| name.len()).sum::<usize>(), 12));
///     for name in ["one", "three", "four"] {
///         to.send(pool.boxed(name.to_string()).expect("there are free blocks")).expect("it listens");
///     }
///     drop(to);
/// });
/// # Ok::<(), calmalloc::pool::PoolError>(())
/// ```
pub struct PoolBox<'p, T: ?Sized> {
    value: NonNull<T>,
    pool: &'p Shared,
    _owns: PhantomData<T>,
}

// SAFETY: it owns the value; what it uses of the pool any thread may use.
unsafe impl<T: ?Sized + Send> Send for PoolBox<'_, T> {}
// SAFETY: a shared one gives shared access to the value and no more.
unsafe impl<T: ?Sized + Sync> Sync for PoolBox<'_, T> {}

/// There is no free block for a value, which is given back: its class is exhausted, or no class is so large.
///
/// ```
/// use calmalloc::pool::PoolConfig;
///
/// let pool = PoolConfig::new(1 << 16).class(32, 100).create()?;
/// let refused = pool.boxed([7u8; 100]).unwrap_err();
/// assert_eq!(refused.to_string(), "the pool has no free block of 100 bytes");
/// assert_eq!(refused.into_inner(), [7; 100]);
/// # Ok::<(), calmalloc::pool::PoolError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Exhausted<T> {
    value: T,
    bytes: usize,
}

impl<T> Exhausted<T> {
    /// The value that found no block.
    pub fn into_inner(self) -> T {
        self.value
    }
}

impl<T> fmt::Display for Exhausted<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "the pool has no free block of {} bytes", self.bytes)
    }
}

impl<T> fmt::Debug for Exhausted<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Exhausted({} bytes)", self.bytes)
    }
}

impl<T> std::error::Error for Exhausted<T> {}

impl Pool {
    /// Puts a value into a block. A value of no size takes none.
    #[inline]
    pub fn boxed<T>(&self, value: T) -> Result<PoolBox<'_, T>, Exhausted<T>> {
        let block = match size_of::<T>() {
            0 => NonNull::dangling(),
            bytes => match self.alloc(Layout::new::<T>()) {
                Some(block) => block.cast::<T>(),
                None => return Err(Exhausted { value, bytes }),
            },
        };
        // SAFETY: the block is as large and as aligned as the value, and nobody else has it.
        unsafe { block.as_ptr().write(value) };
        Ok(PoolBox::new(block, self))
    }

    /// Puts a copy of `values` into one block.
    ///
    /// ```
    /// use calmalloc::pool::PoolConfig;
    ///
    /// let pool = PoolConfig::new(1 << 16).class(256, 100).create()?;
    /// let line = pool.copied(b"GET / HTTP/1.1")?;
    /// assert!(line.starts_with(b"GET"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn copied<'v, T: Copy>(
        &self,
        values: &'v [T],
    ) -> Result<PoolBox<'_, [T]>, Exhausted<&'v [T]>> {
        let block = match size_of_val(values) {
            0 => NonNull::dangling(),
            bytes => match self.alloc(Layout::for_value(values)) {
                Some(block) => block.cast::<T>(),
                None => {
                    return Err(Exhausted {
                        value: values,
                        bytes,
                    })
                }
            },
        };
        // SAFETY: the block is as large and as aligned as the values, apart from them, and nobody else has it.
        let copy = unsafe {
            block
                .as_ptr()
                .copy_from_nonoverlapping(values.as_ptr(), values.len());
            slice::from_raw_parts_mut(block.as_ptr(), values.len())
        };
        Ok(PoolBox::new(NonNull::from(copy), self))
    }
}

impl<'p, T: ?Sized> PoolBox<'p, T> {
    fn new(value: NonNull<T>, pool: &'p Pool) -> Self {
        Self {
            value,
            pool: &pool.shared,
            _owns: PhantomData,
        }
    }

    /// Frees the block, if there is one, and not the value.
    #[inline]
    fn free_block(&mut self) {
        // SAFETY: the value may be gone, its place is not.
        if unsafe { size_of_val(self.value.as_ref()) } == 0 {
            return;
        }
        // SAFETY: the block is this box's, and so is a borrow of the pool.
        let code = unsafe { self.pool.free_from_here(self.value.cast()) };
        debug_assert_eq!(code, 0, "a pool's block was freed behind its box");
    }

    /// Keeps the value where it is until the pool ends, and never drops it.
    pub fn leak(this: Self) -> &'p mut T {
        let this = ManuallyDrop::new(this);
        // SAFETY: the block stays taken, and nobody else has it.
        unsafe { &mut *this.value.as_ptr() }
    }
}

impl<T> PoolBox<'_, T> {
    /// Takes the value out and frees the block.
    pub fn into_inner(this: Self) -> T {
        let mut this = ManuallyDrop::new(this);
        // SAFETY: the value is moved out once, as the box is not dropped.
        let value = unsafe { this.value.as_ptr().read() };
        this.free_block();
        value
    }
}

impl<T: ?Sized> Drop for PoolBox<'_, T> {
    #[inline]
    fn drop(&mut self) {
        /// Frees the block also when the value's own drop panics.
        struct Block<'a, 'p, T: ?Sized>(&'a mut PoolBox<'p, T>);
        impl<T: ?Sized> Drop for Block<'_, '_, T> {
            fn drop(&mut self) {
                self.0.free_block();
            }
        }
        let block = Block(self);
        // SAFETY: the value is live and dropped once.
        unsafe { block.0.value.as_ptr().drop_in_place() }
    }
}

impl<T: ?Sized> Deref for PoolBox<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the value is live as long as the box.
        unsafe { self.value.as_ref() }
    }
}

impl<T: ?Sized> DerefMut for PoolBox<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the value is live as long as the box, whose only borrow this is.
        unsafe { self.value.as_mut() }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for PoolBox<'_, T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(out)
    }
}
