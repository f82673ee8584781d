//! What can be wrong with a configuration or a block: the codes of C as an enum, with C's sentences.

use calmalloc_sys as sys;
use std::ffi::CStr;
use std::fmt;

macro_rules! errors {
    ($($(#[$words:meta])* $name:ident = $code:ident,)*) => {
        /// What is wrong with a configuration, with the machine, or with a block that shall be freed.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[repr(i32)]
        pub enum PoolError {
            $($(#[$words])* $name = sys::$code,)*
        }

        impl PoolError {
            /// The error of a code of C; `None` for 0 and for a number that is none.
            pub fn from_code(code: i32) -> Option<Self> {
                match code {
                    $(sys::$code => Some(Self::$name),)*
                    _ => None,
                }
            }
        }
    };
}

errors! {
    /// A pointer is null.
    Null = CALM_ENULL,
    /// No class, or more than 64.
    Classes = CALM_ECLASSES,
    /// A block size of 0.
    BlockZero = CALM_EBLOCK_ZERO,
    /// A block size above 1 MiB.
    BlockLarge = CALM_EBLOCK_LARGE,
    /// Block sizes that do not ascend.
    Order = CALM_EORDER,
    /// A class with a share of 0 %.
    ShareZero = CALM_ESHARE_ZERO,
    /// Shares that do not sum to 100.
    Shares = CALM_ESHARES,
    /// A share that does not hold one block.
    ShareSmall = CALM_ESHARE_SMALL,
    /// A share that holds too many blocks.
    Blocks = CALM_EBLOCKS,
    /// A pool of 0 bytes.
    BytesZero = CALM_EBYTES_ZERO,
    /// Fewer bytes than the bookkeeping needs.
    BytesSmall = CALM_EBYTES_SMALL,
    /// More bytes than an address space holds.
    BytesLarge = CALM_EBYTES_LARGE,
    /// An unknown flag.
    Flags = CALM_EFLAGS,
    /// Lazy and locked.
    LazyAndLocked = CALM_EFLAGS_LAZY,
    /// Huge pages of memory that is given.
    HugeGiven = CALM_EFLAGS_MEMORY,
    /// Memory that is given, and not aligned.
    MemoryAlign = CALM_EMEMORY_ALIGN,
    /// Memory that is given, and passes the end of the address space.
    MemoryEnd = CALM_EMEMORY_END,
    /// The kernel has no memory or no address space left.
    NoMemory = CALM_ENOMEM,
    /// The kernel refuses to lock the pages.
    Lock = CALM_ELOCK,
    /// The kernel has no huge pages.
    Huge = CALM_EHUGE,
    /// Too many pools exist.
    Pools = CALM_EPOOLS,
    /// The address is no block of the pool.
    Foreign = CALM_EFOREIGN,
    /// The address is inside a block.
    Interior = CALM_EINTERIOR,
    /// The address is inside a block and not aligned as blocks are.
    Misaligned = CALM_EMISALIGNED,
    /// The block is free already.
    DoubleFree = CALM_EDOUBLE,
    /// A region's mark above what is in use.
    Mark = CALM_EMARK,
    /// A class of 0 blocks.
    BlocksZero = CALM_EBLOCKS_ZERO,
    /// Both shares and numbers of blocks.
    Both = CALM_EBOTH,
    /// Nobody computed what the operations of this build can cost.
    Unchecked = CALM_EUNCHECKED,
}

impl PoolError {
    /// The code of C.
    pub fn code(self) -> i32 {
        self as i32
    }

    pub(super) fn check(code: i32) -> Result<(), Self> {
        Self::from_code(code).map_or(Ok(()), Err)
    }
}

impl fmt::Display for PoolError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: the function returns a string that is part of the program.
        let sentence = unsafe { CStr::from_ptr(sys::calm_strerror(self.code())) };
        out.write_str(&sentence.to_string_lossy())
    }
}

impl std::error::Error for PoolError {}
